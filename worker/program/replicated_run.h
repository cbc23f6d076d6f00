#pragma once

// The run of a program by its replicas. Each replica gets its part of the batch and all other
// inputs whole, and computes on its own strand. The replica that finishes last joins the results,
// output by output (join_replicas.h); values that replicas left on GPUs are added up there
// (device_sums.h). The program's join model, which replaces joined values, runs on the strand of
// replica 0. If nodes of the program join values (AllReduce, for example), replicas meet while they
// compute (replica_meeting.h).
//
// In a gang of several workers, the batch is divided over the replicas of all workers, in the order
// of the workers' ranks, and all these replicas meet. The results of all workers are added up
// (group_sum.h): while other outputs are still computed if an output's type is known before the run
// (early_sums.h), else afterwards. Outputs that are fetched from each replica are gathered by all
// workers (group_gather.h). If the batch has too few examples for a worker, this worker computes
// the last part of the batch as well, to know the shapes; it takes part in the meetings but adds
// nothing.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/strand.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/runtime/run/program_runner.h"
#include "worker/gang/gang_group.h"
#include "worker/program/early_sums.h"
#include "worker/program/replica_meeting.h"
#include "worker/program/worker_program.h"

namespace cohort {

// The examples of the batch that one replica gets, as a range.
struct BatchPart {
  int64_t begin = 0;
  int64_t count = 0;

  friend bool operator==(const BatchPart&, const BatchPart&) = default;
};

// Divides a batch among the replicas of a program, in order along axis 0. Of n examples and R
// replicas, each replica gets n / R examples, and each of the first n % R replicas one more.
// Returns the parts that have at least one example: with fewer examples than replicas, the last
// replicas get no part and do not run.
std::vector<BatchPart> SplitBatch(int64_t examples, int64_t replicas);

// The strands on which the replicas of one worker compute: one strand per replica, made on first
// use and shared by all programs. So two runs never use one runner at once, and the replicas of a
// closure run concurrently. Thread-safe.
class ReplicaStrands {
 public:
  // Returns the executor under the strand of `replica`. The executors outlive this object.
  using ExecutorOf = std::function<Executor&(size_t replica)>;
  explicit ReplicaStrands(ExecutorOf executor_of) : executor_of_(std::move(executor_of)) {}

  Strand& Of(size_t replica) {
    MutexLock lock(mutex_);
    while (strands_.size() <= replica) {
      strands_.push_back(std::make_unique<Strand>(executor_of_(strands_.size())));
    }
    return *strands_[replica];
  }
  // Returns the pool that lends memory for values that wait to be joined over replicas.
  const std::shared_ptr<OutputPool>& pool() const { return pool_; }

 private:
  const ExecutorOf executor_of_;
  // Memory for values that wait to be joined over replicas; grows on demand.
  const std::shared_ptr<OutputPool> pool_ = std::make_shared<OutputPool>();
  Mutex mutex_;
  std::vector<std::unique_ptr<Strand>> strands_ ABSL_GUARDED_BY(mutex_);
};

// One run of a program by all replicas of this worker. Thread-safe.
class ReplicatedRun : public std::enable_shared_from_this<ReplicatedRun> {
 public:
  // The results of a run: for each output of the graph one tensor, or one tensor from each replica
  // if the output is fetched from each replica.
  using Outputs = std::vector<std::vector<Tensor>>;
  // Receives the results. Errors: INVALID_ARGUMENT for a batch that cannot be divided and for
  // outputs that cannot be joined; those of the program, where a replica's own error is preferred
  // to an error that it got from another replica; those of GroupSum. After an error, sums may still
  // be under way; they keep their own memory alive.
  using Done = absl::AnyInvocable<void(absl::StatusOr<Outputs>)>;

  // The tensors that a run reads.
  struct Values {
    std::vector<Tensor> inputs;  // values of the graph's inputs, in the graph's order
    // For each output that assigns one row per replica to a variable: the variable before the run
    // (WorkerProgram.rows_before), whose rows are kept for replicas that do not run.
    std::vector<Tensor> before;
  };

  // Makes a run. `program`, `strands` and `group` are shared with other closures and outlive the
  // run. `group` is null if no other worker takes part.
  ReplicatedRun(std::shared_ptr<const WorkerProgram> program,
                std::shared_ptr<ReplicaStrands> strands, std::shared_ptr<GangGroup> group,
                Values values, const RunContext& context, Done done);

  // Starts the run. Called once, on the strand of replica 0, which starts to compute inside the
  // call.
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
  std::vector<Tensor> inputs_;  // inputs of the run, kept until all replicas have computed
  const std::vector<Tensor> before_;
  const RunContext context_;
  Done done_;
  // Number of examples in the whole batch; the number of replicas if the batch is not divided.
  int64_t examples_ = 0;
  // True if the batch is divided over the replicas; false if every replica gets the whole batch.
  bool by_parts_ = false;
  int64_t all_parts_ = 1;   // number of replicas that have a part of the batch, on all workers
  int64_t first_part_ = 0;  // number of this worker's first part among all parts of the batch
  // True if this worker has a part of the batch. Otherwise this worker computes the last part,
  // which is another worker's too, and adds nothing to the sums.
  bool has_part_ = true;
  std::vector<BatchPart> parts_;  // the parts of the batch that the replicas of this worker compute
  // The meetings of the replicas; null if one replica runs alone.
  std::unique_ptr<ReplicaMeeting> meeting_;
  // The sums over the group that begin during the run; null without a group, and if no output can
  // be summed early.
  std::unique_ptr<EarlySums> early_;
  // The outputs or the error of each replica. Each replica writes its own entry; the replica that
  // finishes last reads all entries.
  std::vector<absl::StatusOr<std::vector<Tensor>>> results_;
  // The outputs that have one value per replica, and the values of this worker's replicas for them.
  // Set when all replicas of this worker have finished; empty without a group.
  std::vector<size_t> gathers_;
  Outputs fetched_;
  Mutex mutex_;
  // The number of this worker's replicas that have not finished.
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
