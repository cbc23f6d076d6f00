#pragma once

// Sums over the workers of a gang that begin while its replicas still compute: those of outputs
// whose type and shape are known before they do, which all gradients' are but those of rows. Each
// replica hands an output over as soon as it has it; the last one joins them (join_replicas.h),
// which makes this worker's summand (group_sum.h). Replicas compute gradients from the last layer
// to the first, and so the last layer's travel while the others are computed.

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/runtime/run/program_runner.h"
#include "worker/gang/group_sum.h"
#include "worker/program/worker_program.h"

namespace cohort {

// Thread-safe. Lives until the replicas have ended.
class EarlySums {
 public:
  struct Options {
    std::vector<int64_t> examples;  // one per replica that runs here
    int64_t all_examples = 0;
    int64_t all_replicas = 1;          // replicas that have a part, on all workers
    bool counts = true;                // else what is computed here adds nothing
    bool first = true;                 // whether it is the first of the workers
    std::shared_ptr<OutputPool> pool;  // for what replicas hand over; shared with the buffers
  };

  // Returns null if there is nothing to begin with. Errors: those of GroupSum::Make.
  static absl::StatusOr<std::unique_ptr<EarlySums>> Make(
      std::shared_ptr<const WorkerProgram> program, const std::shared_ptr<GangGroup>& group,
      Options options);
  ~EarlySums();

  // Returns the taker for this replica's run. It lives as long as this. Errors of Take:
  // INVALID_ARGUMENT for a value of another type than the program has; the error with which the
  // group has ended.
  OutputTaker& TakerOf(size_t replica);

  bool Has(size_t output) const { return items_[output] >= 0; }
  // Returns whether the replica's error is that of the group, relayed to it.
  bool WasRelayed(size_t replica) const;
  absl::Status status() const { return sum_->status(); }

  // Gives `done` the sums, by output, when all replicas have ended well; no value for outputs that
  // are not summed here. `done` runs once, in this call or on any thread.
  void Finish(GroupSum::Sums done);

 private:
  class Taker;

  EarlySums(std::shared_ptr<const WorkerProgram> program, std::shared_ptr<GroupSum> sum,
            std::vector<int> items, Options options);
  absl::Status Add(size_t replica, size_t output, const Tensor& value);
  bool IsNeutral(size_t output) const;
  absl::Status HandOver(size_t replica, size_t output, const Tensor& value);

  const std::shared_ptr<const WorkerProgram> program_;
  const std::shared_ptr<GroupSum> sum_;  // shared with its calls
  const std::vector<int> items_;         // the summand of each output, or -1
  const Options options_;
  std::vector<std::unique_ptr<Taker>> takers_;
  // By summand and replica: each replica writes its own, and the last one to come reads them.
  std::vector<std::vector<Tensor>> values_;
  std::vector<std::atomic<size_t>> missing_;  // one per summand
};

}  // namespace cohort
