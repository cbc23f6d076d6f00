#pragma once

// One run of a program by its replicas. Each gets its part of the batch, and everything else
// whole, and computes on its own strand; what they computed is joined, output by output
// (join_replicas.h). The last one that is done joins; what the program does to the joined values
// runs on the strand of replica 0.

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/runtime/program_runner.h"
#include "worker/batch_parts.h"
#include "worker/replica_strands.h"
#include "worker/worker_program.h"

namespace cohort {

// Thread-safe.
class ReplicatedRun : public std::enable_shared_from_this<ReplicatedRun> {
 public:
  // By the graph's outputs: one tensor, but for a fetch of each replica.
  using Outputs = std::vector<std::vector<Tensor>>;
  // Errors: INVALID_ARGUMENT for a batch that cannot be shared out, and for outputs that cannot be
  // joined; those of the program, of the first replica that has one.
  using Done = absl::AnyInvocable<void(absl::StatusOr<Outputs>)>;

  // `inputs` in the graph's order. The parts are shared with closures and outlive the run.
  ReplicatedRun(std::shared_ptr<const WorkerProgram> program,
                std::shared_ptr<ReplicaStrands> strands, std::vector<Tensor> inputs,
                const RunContext& context, Done done);

  // Call once, on the strand of replica 0, which computes at once.
  void Start();

 private:
  absl::Status ShareOut();
  bool IsOfBatch(size_t input) const;
  void RunReplica(size_t replica);
  absl::StatusOr<std::vector<Tensor>> Compute(size_t replica);
  absl::StatusOr<Outputs> Join();
  void RunJoined(Outputs outputs);

  const std::shared_ptr<const WorkerProgram> program_;
  const std::shared_ptr<ReplicaStrands> strands_;
  std::vector<Tensor> inputs_;  // until all have computed
  const RunContext context_;
  Done done_;
  int64_t examples_ = 0;          // of the batch
  bool by_parts_ = false;         // the batch is shared out
  std::vector<BatchPart> parts_;  // one for each replica that runs
  // By replica: each is written by its own and read when all are done.
  std::vector<absl::StatusOr<std::vector<Tensor>>> results_;
  Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
