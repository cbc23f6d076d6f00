#pragma once

// Holds the values of one run. The first run with new input shapes records the storage (range of
// bytes) of each value: a storage of its own, the bytes of an input that is no longer needed (in
// place), or a share of another value's storage (Reshape). A memory plan follows from the record,
// and later runs place storages in one arena by this plan.
//
// A run may behave differently from the record, because an operator's result depends on input
// values. Such a run stays correct: a value that deviates from the record gets a fresh buffer, and
// the next run records again. An operator that forwards its input in one run and computes in the
// next deviates, too: every run counts the values on a storage, and no node writes over a storage
// that has other values. A storage that a graph output shares is never in the arena. Values on a
// device have an arena in the device's memory. If shapes change from run to run, as those of
// tables' rows do, each run records and takes its buffers from a pool.

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

// The values of a runner's current run, the record of where they are stored, and the memory plan
// for later runs. Thread-compatible.
class ValueStore {
 public:
  // Makes a store. `stream` is the stream of the device on which the program computes, and outlives
  // the store; null without a device.
  ValueStore(const CompiledProgram& program, AllocateBuffer allocate_outputs, CudaStream* stream);

  // Starts a run. The run follows the memory plan if `inputs` have the types and shapes for which
  // the plan was made; otherwise it records.
  void Begin(absl::Span<const Tensor> inputs);
  void Bind(int value, const Tensor& tensor) { values_[static_cast<size_t>(value)] = tensor; }
  Tensor& Allocate(int node, int value, DType dtype, const Shape& shape);
  // Allocates a value in the memory of `input`, which the node reads, if `input` is not needed any
  // more and the plan allows it; otherwise allocates the value like Allocate.
  Tensor& AllocateOver(int node, int value, int input, DType dtype, const Shape& shape);
  void Forward(int value, const Tensor& tensor, absl::Span<const int> inputs);
  // Drops `values`, which no node after number `node` reads.
  void Release(int node, absl::Span<const int> values);
  // Ends a run that succeeded. If the run has recorded where its values are stored, makes the
  // memory plan.
  void Finish();
  // Ends a run that failed. The next run must record where its values are stored.
  void Abandon();
  // Makes later runs fill bytes of an arena with NaN after their last use by the plan. For tests.
  void FillDeadMemory() { fill_dead_memory_ = true; }

  const Tensor& value(int index) const { return values_[static_cast<size_t>(index)]; }
  // Returns the number of buffers that were allocated for intermediate values since construction.
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
    int live = 0;       // number of values whose bytes are in the storage now
    size_t offset = 0;  // offset of the storage in its arena
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
  // The pool of the buffers of graph outputs, shared with the buffers in use, which return to the
  // pool.
  const std::shared_ptr<OutputPool> pool_;
  // The pool for values of runs that record. It is made as soon as the inputs' shapes have changed
  // between runs. Shared with the buffers in use, which return to the pool.
  std::shared_ptr<OutputPool> varying_;
  std::vector<Tensor> values_;
  std::vector<Placement> current_;  // where each value of this run is stored
  std::vector<Placement> plan_;     // where each value of the recorded run was stored
  std::vector<Storage> storages_;
  std::vector<std::pair<DType, Shape>> signature_;  // types and shapes of the recorded inputs
  CudaStream* const stream_;
  // The arenas (one block of memory each) in host memory and on the device. Shared with the tensors
  // of a run, which are views of the arenas.
  std::shared_ptr<Buffer> arena_;
  std::shared_ptr<Buffer> device_arena_;
  bool planned_ = false;
  bool stale_ = false;
  bool fill_dead_memory_ = false;
  std::vector<Tensor> fills_;  // NaN bytes that the stream still copies to the device
  int64_t allocations_ = 0;
};

}  // namespace cohort
