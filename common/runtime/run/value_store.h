#pragma once

// Holds the values of one run. The first run with new input shapes records which value got which
// storage: its own, the bytes of a dying input (in place), or a share of another value's (Reshape).
// From the record follows a memory plan, and later runs place storages in one arena by it. A run
// that behaves differently from the record, because an operator's result depends on input values,
// stays correct: what deviates gets a fresh buffer, and the next run records again. An operator
// that hands on its input in one run and computes in the next deviates, too: every run counts the
// values on a storage, and no node writes over a storage on which there are others. Storages that a
// graph output can see are never in the arena. Values on a device have an arena there. Where shapes
// change from run to run, as those of rows of tables do, each run records, in buffers that are used
// again.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/runtime/run/compiled_program.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Thread-compatible.
class ValueStore {
 public:
  // Makes a store. `stream` is that of the device that some values are on, and outlives the store;
  // null without one.
  ValueStore(const CompiledProgram& program, AllocateBuffer allocate_outputs, CudaStream* stream);

  // Starts a run; `inputs` decide whether the plan holds.
  void Begin(absl::Span<const Tensor> inputs);
  void Bind(int value, const Tensor& tensor) { values_[static_cast<size_t>(value)] = tensor; }
  Tensor& Allocate(int node, int value, DType dtype, const Shape& shape);
  // Allocates over `input`, a value that the node reads, if the node reads it only once.
  Tensor& AllocateOver(int node, int value, int input, DType dtype, const Shape& shape);
  void Forward(int value, const Tensor& tensor, absl::Span<const int> inputs);
  // Ends `values`, which no node after `node` reads.
  void Release(int node, absl::Span<const int> values);
  // Ends a run that succeeded; makes the plan after a recording.
  void Finish();
  // Ends a run that failed: the next one records.
  void Abandon();
  // Fills bytes of an arena with NaN after their last use by the plan, from now on: for tests.
  void FillDeadMemory() { fill_dead_memory_ = true; }

  const Tensor& value(int index) const { return values_[static_cast<size_t>(index)]; }
  // Buffers that were allocated for intermediate values since construction.
  int64_t allocations() const { return allocations_; }
  size_t arena_bytes() const {
    return (arena_ ? arena_->size() : 0) + (device_arena_ ? device_arena_->size() : 0);
  }

 private:
  enum class Origin { kExternal, kOwned, kOver, kShared };
  struct Placement {
    Origin origin = Origin::kExternal;
    int storage = -1;
  };
  struct Storage {
    size_t bytes = 0;
    int first = 0;
    int last = 0;
    bool escapes = false;
    bool on_device = false;
    int live = 0;       // values that are on it now
    size_t offset = 0;  // where it lies in the arena
  };

  bool IsOnDeviceSide(int value) const { return program_.on_device[static_cast<size_t>(value)]; }
  std::shared_ptr<Buffer>& ArenaOf(bool on_device) { return on_device ? device_arena_ : arena_; }
  void PlanArena(bool on_device);
  Tensor& Place(int value, Tensor tensor, Placement placement);
  Tensor Fresh(int value, DType dtype, const Shape& shape);
  Tensor& Record(int node, int value, DType dtype, const Shape& shape);
  bool MayOverwrite(int node, int input, size_t bytes) const;
  Tensor& Deviate(int value, DType dtype, const Shape& shape);
  bool SameAsRecorded(absl::Span<const Tensor> inputs) const;
  bool IsInArena(int storage) const {
    return planned_ && !storages_[static_cast<size_t>(storage)].escapes;
  }
  int StorageOf(const Tensor& tensor, absl::Span<const int> inputs) const;
  void FillBehind(int node);

  const CompiledProgram& program_;
  const std::shared_ptr<OutputPool> pool_;  // shared: buffers that are out refer to it
  // The pool for values of runs that record, once shapes were seen to change. Shared like pool_.
  std::shared_ptr<OutputPool> varying_;
  std::vector<Tensor> values_;
  std::vector<Placement> current_;  // per value, this run
  std::vector<Placement> plan_;     // per value, as recorded
  std::vector<Storage> storages_;
  std::vector<std::pair<DType, Shape>> signature_;  // types and shapes of the recorded inputs
  CudaStream* const stream_;
  // Shared with the views of a run.
  std::shared_ptr<Buffer> arena_;
  std::shared_ptr<Buffer> device_arena_;
  bool planned_ = false;
  bool stale_ = false;
  bool fill_dead_memory_ = false;
  std::vector<Tensor> fills_;  // what the stream still copies to the device
  int64_t allocations_ = 0;
};

}  // namespace cohort
