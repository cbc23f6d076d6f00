#pragma once

// Parameter servers in this process: a world with real threads, layouts, requests, and calls that
// wait for their answer.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "proto/task.pb.h"
#include "ps_server/ps_task.h"
#include "ps_server/slice/variable_slice.h"
#include "tests/support/test_seed.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {

inline std::string Replay(uint64_t seed, const std::string& filter) {
  return Replay("ps_server_test", seed, filter);
}

// The tensor's bytes as payload slices with borders at the given offsets, each in memory of its own
// at an odd address.
Payload CutAt(const Tensor& tensor, const std::vector<size_t>& borders);

proto::UpdateRule Rule(const std::string& op,
                       const std::vector<std::pair<std::string, double>>& parameters);

struct VariableSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  proto::UpdateRule rule = Rule("sgd", {});
  std::string initializer = "random_normal";
  proto::VariableAggregation aggregation = proto::AGGREGATION_NONE;
  std::optional<proto::DynamicTable> dynamic = std::nullopt;
};
// A dynamic table with rows of so many float32.
VariableSpec TableSpec(const std::string& name, int64_t width, const proto::UpdateRule& rule);
// Cuts each variable into one slice per ps by the div rule; ids count up from 1.
std::vector<proto::VariableLayout> LayOut(const std::vector<VariableSpec>& variables, int num_ps);

proto::CreateVariablesRequest CreateRequest(const std::vector<proto::VariableLayout>& layouts);

// The only slice of a variable.
std::unique_ptr<VariableSlice> MakeShard(const VariableSpec& spec);
// A copy of what lies in pieces.
Tensor Joined(const Payload& payload, DType dtype, const Shape& shape);
bool SameBytes(const Tensor& a, const Tensor& b);
// Copies of value and slots, and the history.
SliceState StateOf(VariableSlice& shard);

struct PushSpec {
  uint64_t closure = 1;
  uint64_t worker = 100;
  uint64_t watermark = 1;
  double learning_rate = 1;
  uint64_t step = 1;
};
Envelope<proto::PushRequest> PushOf(const PushSpec& spec,
                                    const std::vector<std::pair<uint32_t, Tensor>>& gradients);
// Of some rows of slices, by their ids.
struct RowsOfSlice {
  uint32_t slice = 1;
  std::vector<int64_t> ids;
  Tensor gradients;
};
Envelope<proto::PushRequest> PushRowsOf(const PushSpec& spec,
                                        const std::vector<RowsOfSlice>& slices);
Envelope<proto::PullRequest> PullOf(const std::vector<uint32_t>& slice_ids);
Envelope<proto::AssignRequest> AssignOf(const std::vector<std::pair<uint32_t, Tensor>>& values);

inline constexpr uint64_t kTestEpoch = 5;
inline constexpr uint64_t kTestCoordinator = 77;

// A number of parameter servers over an in-process transport, attached to one coordinator.
// Thread-safe once made.
class PsCluster {
 public:
  explicit PsCluster(int num_ps);  // with files of its own
  PsCluster(int num_ps, FileSystem& files);
  ~PsCluster();

  FileSystem& files() { return files_; }
  Executor& executor() { return executor_; }
  PsTask& task(int ps) { return *tasks_[static_cast<size_t>(ps)]; }
  const std::string& address(int ps) const { return addresses_[static_cast<size_t>(ps)]; }
  Channel& channel(int ps) { return *channels_[static_cast<size_t>(ps)]; }

  absl::Status Attach(int ps, uint64_t epoch, uint64_t coordinator);

  // Sends a raw message and waits.
  absl::StatusOr<Message> CallRaw(int ps, const std::string& method, Message request);
  template <typename Response, typename Request>
  absl::StatusOr<Envelope<Response>> Call(int ps, const std::string& method,
                                          Envelope<Request> request) {
    absl::StatusOr<Message> answer = CallRaw(ps, method, Pack(std::move(request)));
    if (!answer.ok()) return answer.status();
    return Unpack<Response>(*std::move(answer));
  }

  absl::Status CreateAll(const std::vector<proto::VariableLayout>& layouts);
  absl::StatusOr<proto::PushResponse> Push(int ps, Envelope<proto::PushRequest> request);
  absl::StatusOr<std::vector<Tensor>> Pull(int ps, const std::vector<uint32_t>& slice_ids);
  proto::PsStatsResponse Stats(int ps);
  // Holds what the ps has and writes it. Without an epoch: the test's; without a number: the next.
  absl::StatusOr<std::vector<proto::SavedSlice>> SaveShard(int ps, proto::HoldShardRequest request);

 private:
  RealClock clock_;
  ThreadPool executor_;
  MemoryFileSystem own_files_;
  FileSystem& files_;
  InProcessTransport transport_;
  std::vector<std::unique_ptr<PsTask>> tasks_;
  std::vector<std::string> addresses_;
  std::vector<std::shared_ptr<Channel>> channels_;
  std::atomic<uint64_t> last_save_{0};
};

// Of a save by this ps alone.
proto::HoldShardRequest HoldRequest(const std::string& prefix);

}  // namespace cohort
