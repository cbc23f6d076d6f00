#pragma once

// One worker and some parameter servers in this process, with real threads and the test as their
// coordinator.

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "ps_server/ps_task.h"
#include "tests/unit/worker/fault_transport.h"
#include "worker/service/worker_task.h"

namespace cohort {

template <typename Response>
using Pending = std::future<absl::StatusOr<Envelope<Response>>>;

// Thread-compatible.
class WorkerCluster {
 public:
  explicit WorkerCluster(int num_ps, FindCuda find_cuda = nullptr,
                         size_t call_bytes_max = kCallBytesMax);

  FaultTransport& faults() { return faults_; }
  WorkerTask& worker() { return *worker_; }
  const std::string& ps_address(int ps) const { return ps_addresses_[static_cast<size_t>(ps)]; }
  // What the next Attach says.
  void SetLease(absl::Duration lease) { lease_ = lease; }
  void StopPs(int ps) { ps_[static_cast<size_t>(ps)].reset(); }

  template <typename Response, typename Request>
  Pending<Response> Start(const std::string& address, const std::string& method,
                          Envelope<Request> request, std::unique_ptr<Call>* handle = nullptr) {
    auto result = std::make_shared<std::promise<absl::StatusOr<Envelope<Response>>>>();
    Pending<Response> pending = result->get_future();
    std::unique_ptr<Call> call = StartCall<Response, Request>(
        *faults_.Connect(address, Lane::kData), absl::StrCat("/cohort.proto.", method),
        std::move(request), absl::Minutes(1),
        [result](absl::StatusOr<Envelope<Response>> response) {
          result->set_value(std::move(response));
        });
    if (handle != nullptr) *handle = std::move(call);
    return pending;
  }
  template <typename Response, typename Request>
  absl::StatusOr<Envelope<Response>> Invoke(const std::string& address, const std::string& method,
                                            const Request& request) {
    return Start<Response, Request>(address, method, {request, {}}).get();
  }
  template <typename Response, typename Request>
  absl::StatusOr<Envelope<Response>> CallWorker(const std::string& method, const Request& request) {
    return Invoke<Response>(worker_address_, "WorkerService/" + method, request);
  }

  absl::Status Attach(uint64_t epoch, uint64_t coordinator = 1);
  absl::Status CreateVariables(const std::vector<proto::VariableLayout>& layouts);
  absl::Status Register(const proto::Program& program,
                        const std::vector<proto::VariableLayout>& layouts);
  absl::StatusOr<proto::CreateDatasetResponse> CreateDataset(uint64_t id,
                                                             const proto::DatasetSpec& spec);
  absl::Status CreateIterator(uint64_t id, uint64_t dataset);

  // A closure of the next id; the test may change it before it runs.
  proto::RunClosureRequest Closure(const proto::Program& program);
  Pending<proto::RunClosureResponse> StartClosure(const proto::RunClosureRequest& request,
                                                  Payload payload = {},
                                                  std::unique_ptr<Call>* handle = nullptr);
  // The fetched tensors.
  absl::StatusOr<std::vector<Tensor>> Run(const proto::RunClosureRequest& request,
                                          Payload payload = {});

  uint64_t epoch() const { return epoch_; }

 private:
  RealClock clock_;
  ThreadPool pool_{{"test", 4}};
  PosixFileSystem files_;
  InProcessTransport inner_{clock_, pool_};
  FaultTransport faults_{inner_};
  World world_{clock_, pool_, files_, faults_};
  std::vector<std::unique_ptr<PsTask>> ps_;
  std::vector<std::string> ps_addresses_;
  std::unique_ptr<WorkerTask> worker_;
  std::string worker_address_;
  uint64_t epoch_ = 0;
  absl::Duration lease_ = absl::Seconds(5);
  uint64_t last_closure_ = 0;
};

// A variable of `rows` rows (0: a scalar) whose slices go to the servers in turn.
proto::VariableLayout MakeLayout(const std::string& name, DType dtype, std::vector<int64_t> dims,
                                 std::vector<int64_t> rows, uint32_t first_slice_id,
                                 uint32_t num_ps);

// Those of PerceptronProgram (test_programs.h), in slices on two servers, drawn from a seed.
std::vector<proto::VariableLayout> PerceptronLayouts();

}  // namespace cohort
