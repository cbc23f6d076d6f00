#pragma once

// Sums over the workers of a gang that begin while the gang's replicas still compute. An output
// takes part if its type and shape are known before the run; all gradients do, except those of
// table rows. Each replica hands over an output as soon as it has computed the output. The last
// replica of this worker to do so joins the replicas' values (join_replicas.h), which makes this
// worker's summand (group_sum.h). Replicas compute gradients from the last layer to the first, so
// the last layer's gradients travel while the gradients of earlier layers are computed.

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/runtime/run/program_runner.h"
#include "worker/gang/group_sum.h"
#include "worker/program/worker_program.h"

namespace cohort {

// The early sums of one run of a program. Thread-safe. Lives until the replicas of this worker have
// ended the run.
class EarlySums {
 public:
  struct Options {
    std::vector<int64_t> examples;  // number of examples of each replica of this worker
    int64_t all_examples = 0;
    int64_t all_replicas = 1;  // number of replicas that have a part of the batch, on all workers
    // False if this worker computes another worker's part of the batch, so that its values add
    // nothing.
    bool counts = true;
    bool first = true;  // true if this worker has rank 0 in the group
    // Lends the memory into which replicas' values are copied; shared with the buffers that it has
    // lent.
    std::shared_ptr<OutputPool> pool;
  };

  // Makes the sums, or returns null if no output can be summed early. Errors: those of
  // GroupSum::Make.
  static absl::StatusOr<std::unique_ptr<EarlySums>> Make(
      std::shared_ptr<const WorkerProgram> program, const std::shared_ptr<GangGroup>& group,
      Options options);
  ~EarlySums();

  // Returns the object to which the run of `replica` hands its outputs; it lives as long as this
  // EarlySums. Errors of its Take(): INVALID_ARGUMENT for a value of another type or shape than the
  // program declares; the error with which the group has ended.
  OutputTaker& TakerOf(size_t replica);

  bool Has(size_t output) const { return items_[output] >= 0; }
  // Returns true if the run of `replica` failed only because Take() returned the group's error.
  bool WasRelayed(size_t replica) const;
  absl::Status status() const { return sum_->status(); }

  // Gives `done` one tensor per output of the program: the sum over the group, or an empty tensor
  // for an output that is not summed early. Called when all replicas of this worker have ended
  // well. `done` runs once, inside this call or on any thread.
  void Finish(GroupSum::Sums done);

 private:
  class Taker;

  EarlySums(std::shared_ptr<const WorkerProgram> program, std::shared_ptr<GroupSum> sum,
            std::vector<int> items, Options options);
  absl::Status Add(size_t replica, size_t output, const Tensor& value);
  bool IsNeutral(size_t output) const;
  absl::Status HandOver(size_t replica, size_t output, const Tensor& value);

  const std::shared_ptr<const WorkerProgram> program_;
  const std::shared_ptr<GroupSum> sum_;  // the sum over the group; shared with its collective calls
  // For each output of the program: the number of its summand, or -1 if it is not summed early.
  const std::vector<int> items_;
  const Options options_;
  std::vector<std::unique_ptr<Taker>> takers_;
  // The values of each summand, one per replica. Each replica writes its own values; the last
  // replica to hand over a summand reads all of them.
  std::vector<std::vector<Tensor>> values_;
  // For each summand: the number of this worker's replicas that have not handed over their value.
  std::vector<std::atomic<size_t>> missing_;
};

}  // namespace cohort
