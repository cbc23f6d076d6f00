#pragma once

// One worker and some parameter servers in this process, with real threads and the test as their
// coordinator.

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/program/program.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "ps_server/ps_task.h"
#include "tests/unit/worker/fault_transport.h"
#include "worker/worker_task.h"

namespace cohort {

template <typename Response>
using Pending = std::future<absl::StatusOr<Envelope<Response>>>;

class WorkerCluster {
 public:
  explicit WorkerCluster(int num_ps) {
    for (int i = 0; i < num_ps; ++i) {
      PsTask::Options options;
      options.task = TaskId{Role::kPs, i};
      options.listen_address = "ps:0";
      options.incarnation = static_cast<uint64_t>(100 + i);
      ps_.push_back(std::make_unique<PsTask>(world_, options));
      ps_addresses_.push_back(*ps_.back()->Start());
    }
    WorkerTask::Options options;
    options.task = TaskId{Role::kWorker, 0};
    options.listen_address = "worker:0";
    options.incarnation = 7;
    options.retry.first_backoff = absl::Milliseconds(1);
    worker_ = std::make_unique<WorkerTask>(world_, options);
    worker_address_ = *worker_->Start();
  }

  FaultTransport& faults() { return faults_; }
  WorkerTask& worker() { return *worker_; }
  const std::string& ps_address(int ps) const { return ps_addresses_[static_cast<size_t>(ps)]; }
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
  absl::StatusOr<Envelope<Response>> CallWorker(const std::string& method,
                                                const Request& request) {
    return Invoke<Response>(worker_address_, "WorkerService/" + method, request);
  }

  absl::Status Attach(uint64_t epoch, uint64_t coordinator = 1) {
    epoch_ = epoch;
    proto::AttachRequest request;
    request.set_epoch(epoch);
    request.set_coordinator_incarnation(coordinator);
    for (size_t i = 0; i < ps_addresses_.size(); ++i) {
      proto::Peer& peer = *request.add_ps();
      peer.mutable_task()->set_role("ps");
      peer.mutable_task()->set_index(static_cast<int32_t>(i));
      peer.set_address(ps_addresses_[i]);
    }
    std::vector<std::string> all = ps_addresses_;
    all.push_back(worker_address_);
    absl::Status status;
    for (const std::string& address : all) {
      status.Update(
          Invoke<proto::AttachResponse>(address, "TaskService/Attach", request).status());
    }
    return status;
  }

  absl::Status CreateVariables(const std::vector<proto::VariableLayout>& layouts) {
    proto::CreateVariablesRequest request;
    request.set_epoch(epoch_);
    for (const auto& layout : layouts) *request.add_variables() = layout;
    absl::Status status;
    for (const std::string& address : ps_addresses_) {
      status.Update(
          Invoke<proto::CreateVariablesResponse>(address, "PsService/CreateVariables", request)
              .status());
    }
    return status;
  }

  absl::Status Register(const proto::Program& program,
                        const std::vector<proto::VariableLayout>& layouts) {
    proto::RegisterProgramRequest request;
    request.set_epoch(epoch_);
    request.set_program_id(ProgramId(program));
    *request.mutable_program() = program;
    for (const auto& layout : layouts) *request.add_variables() = layout;
    return CallWorker<proto::RegisterProgramResponse>("RegisterProgram", request).status();
  }

  absl::StatusOr<proto::CreateDatasetResponse> CreateDataset(uint64_t id,
                                                             const proto::DatasetSpec& spec) {
    proto::CreateDatasetRequest request;
    request.set_epoch(epoch_);
    request.set_dataset_id(id);
    *request.mutable_spec() = spec;
    auto response = CallWorker<proto::CreateDatasetResponse>("CreateDataset", request);
    if (!response.ok()) return response.status();
    return response->header;
  }

  absl::Status CreateIterator(uint64_t id, uint64_t dataset) {
    proto::CreateIteratorRequest request;
    request.set_epoch(epoch_);
    request.set_iterator_id(id);
    request.set_dataset_id(dataset);
    return CallWorker<proto::CreateIteratorResponse>("CreateIterator", request).status();
  }

  // A closure of the next id; the test may change it before it runs.
  proto::RunClosureRequest Closure(const proto::Program& program) {
    proto::RunClosureRequest request;
    request.set_epoch(epoch_);
    request.set_closure_id(++last_closure_);
    request.set_attempt(1);
    request.set_program_id(ProgramId(program));
    request.set_learning_rate(0.5);
    request.set_step(last_closure_);
    return request;
  }
  Pending<proto::RunClosureResponse> StartClosure(const proto::RunClosureRequest& request,
                                                  Payload payload = {},
                                                  std::unique_ptr<Call>* handle = nullptr) {
    return Start<proto::RunClosureResponse, proto::RunClosureRequest>(
        worker_address_, "WorkerService/RunClosure", {request, std::move(payload)}, handle);
  }
  // The fetched tensors.
  absl::StatusOr<std::vector<Tensor>> Run(const proto::RunClosureRequest& request,
                                          Payload payload = {}) {
    auto response = StartClosure(request, std::move(payload)).get();
    if (!response.ok()) return response.status();
    return ReadTensors(response->header.fetches(), response->payload);
  }

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
  uint64_t last_closure_ = 0;
};

// A variable of `rows` rows (0: a scalar) whose slices go to the servers in turn.
inline proto::VariableLayout MakeLayout(const std::string& name, DType dtype,
                                        std::vector<int64_t> dims, std::vector<int64_t> rows,
                                        uint32_t first_slice_id, uint32_t num_ps) {
  proto::VariableLayout layout;
  layout.set_name(name);
  layout.set_dtype(static_cast<int32_t>(dtype));
  for (const int64_t dim : dims) layout.add_dims(dim);
  int64_t begin = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    proto::SliceHome& slice = *layout.add_slices();
    slice.set_slice_id(first_slice_id + static_cast<uint32_t>(i));
    slice.set_row_begin(begin);
    slice.set_row_count(rows[i]);
    slice.set_ps(static_cast<uint32_t>(i) % num_ps);
    begin += rows[i];
  }
  layout.mutable_initializer()->set_op("zeros");
  layout.mutable_rule()->set_op("sgd");
  return layout;
}

}  // namespace cohort
