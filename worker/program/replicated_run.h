#pragma once

// The run of a program by its replicas. Each gets its part of the batch, and everything else whole,
// and computes on its own strand; the results are joined, output by output (join_replicas.h), and
// those that stay on GPUs are added up there (device_sums.h). The last replica that is done joins;
// what the program does to the joined values runs on the strand of replica 0. If nodes of the
// program join values, replicas meet while they compute (replica_meeting.h).
//
// In a gang of several workers the batch is shared out over the replicas of all of them, rank after
// rank, meetings are of all of them, and this worker's results are added up with the others'
// (group_sum.h): while the rest is still computed, if their types are known before (early_sums.h),
// else after that. Values that are fetched from each replica are gathered by all workers then
// (group_gather.h). A worker that gets no examples computes the last replica's part, for the
// shapes, comes to the meetings, and adds nothing.

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/runtime/run/program_runner.h"
#include "worker/gang/gang_group.h"
#include "worker/program/early_sums.h"
#include "worker/program/replica_meeting.h"
#include "worker/program/worker_program.h"
#include "worker/replicas/batch_parts.h"
#include "worker/replicas/replica_strands.h"

namespace cohort {

// Thread-safe.
class ReplicatedRun : public std::enable_shared_from_this<ReplicatedRun> {
 public:
  // The tensors of each of the graph's outputs: one, but for a fetch of each replica.
  using Outputs = std::vector<std::vector<Tensor>>;
  // Errors: INVALID_ARGUMENT for a batch that cannot be shared out, and for outputs that cannot be
  // joined; those of the program, of the first replica that has one of its own, and of GroupSum.
  // With an error sums may still be under way; their memory is theirs.
  using Done = absl::AnyInvocable<void(absl::StatusOr<Outputs>)>;

  struct Values {
    std::vector<Tensor> inputs;  // in the graph's order
    std::vector<Tensor> before;  // one per output, see WorkerProgram.rows_before
  };

  // Makes a run. The parts are shared with closures and outlive the run. The group is null if this
  // worker runs alone.
  ReplicatedRun(std::shared_ptr<const WorkerProgram> program,
                std::shared_ptr<ReplicaStrands> strands, std::shared_ptr<GangGroup> group,
                Values values, const RunContext& context, Done done);

  // Starts the run. Called once, on the strand of replica 0, which computes at once.
  void Start();

 private:
  absl::Status ShareOut();
  absl::Status PrepareSums();
  void TakeParts(const std::vector<BatchPart>& all, int64_t first);
  bool IsOfBatch(size_t input) const;
  void OpenMeeting();
  void RunReplica(size_t replica);
  void EndReplica(size_t replica, absl::StatusOr<std::vector<Tensor>> outputs);
  absl::StatusOr<std::vector<Tensor>> WeighSums(size_t replica, std::vector<Tensor> outputs) const;
  bool IsEarly(size_t output) const { return early_ != nullptr && early_->Has(output); }
  absl::Status ErrorOfReplicas() const;
  absl::Status CheckReplicas(int64_t replicas) const;
  int64_t NumberOf(size_t replica) const { return first_part_ + static_cast<int64_t>(replica); }
  absl::StatusOr<std::vector<Tensor>> JoinOutput(size_t output, std::vector<Tensor> values) const;
  DeviceSummands OnDevices(size_t output, std::vector<Tensor> values) const;
  absl::StatusOr<Outputs> Join();
  void SumOverWorkers(Outputs outputs);
  void AwaitEarlySums(std::vector<Tensor> sums);
  void TakeSums(absl::StatusOr<std::vector<Tensor>> sums);
  void GatherOverWorkers(Outputs joined, size_t i);
  void TakeGathered(Outputs joined, size_t i, absl::StatusOr<std::vector<Tensor>> all);
  void FinishJoined(Outputs outputs);
  void RunJoined(Outputs outputs);

  const std::shared_ptr<const WorkerProgram> program_;
  const std::shared_ptr<ReplicaStrands> strands_;
  const std::shared_ptr<GangGroup> group_;
  std::vector<Tensor> inputs_;  // kept until all have computed
  const std::vector<Tensor> before_;
  const RunContext context_;
  Done done_;
  int64_t examples_ = 0;                     // examples in the batch
  bool by_parts_ = false;                    // the batch is shared out
  int64_t all_parts_ = 1;                    // replicas that have a part, on all workers
  int64_t first_part_ = 0;                   // this worker's first part among those
  bool has_part_ = true;                     // else it computes another's, and does not count
  std::vector<BatchPart> parts_;             // one for each replica that runs here
  std::unique_ptr<ReplicaMeeting> meeting_;  // null if one replica runs alone
  std::unique_ptr<EarlySums> early_;         // for several workers; may be null
  // By replica: each replica writes its own, read when all are done.
  std::vector<absl::StatusOr<std::vector<Tensor>>> results_;
  // For several workers, when all replicas here are done: outputs that are fetched from each, and
  // what they fetched here.
  std::vector<size_t> gathers_;
  Outputs fetched_;
  Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
