#include "common/runtime/run/value_store.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/runtime/run/memory_plan.h"

namespace cohort {

namespace {

size_t Bytes(DType dtype, const Shape& shape) {
  return static_cast<size_t>(shape.num_elements()) * ElementSize(dtype);
}

// Returns `bytes` rounded up by at most an eighth, so that values of similar sizes share free
// buffers.
size_t BufferSize(size_t bytes) {
  const size_t step = std::bit_floor(std::max<size_t>(bytes, 512)) / 8;
  return (bytes + step - 1) / step * step;
}

// The number of free buffers kept of each size. Values of one size may live at once, such as the
// rows of many tables.
constexpr size_t kMaxFreePerSize = 64;

size_t Index(int value) { return static_cast<size_t>(value); }

}  // namespace

ValueStore::ValueStore(const CompiledProgram& program, AllocateBuffer allocate_outputs,
                       CudaStream* stream)
    : program_(program),
      pool_(std::make_shared<OutputPool>(std::move(allocate_outputs))),
      values_(Index(program.num_values())),
      current_(Index(program.num_values())),
      plan_(Index(program.num_values())),
      stream_(stream) {}

bool ValueStore::SameAsRecorded(absl::Span<const Tensor> inputs) const {
  if (signature_.size() != inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (signature_[i].first != inputs[i].dtype() || signature_[i].second != inputs[i].shape()) {
      return false;
    }
  }
  return true;
}

void ValueStore::Begin(absl::Span<const Tensor> inputs) {
  std::fill(current_.begin(), current_.end(), Placement{});
  for (Storage& storage : storages_) storage.live = 0;
  // If the plan of the last recorded run fits this run's inputs, this run follows the plan and
  // records nothing.
  if (planned_ && !stale_ && SameAsRecorded(inputs)) return;
  // A plan exists but does not fit, so shapes vary from run to run. From now on, a pool of buffers
  // pays.
  if (planned_ && varying_ == nullptr) {
    varying_ = std::make_shared<OutputPool>(Buffer::Allocate, kMaxFreePerSize);
  }
  planned_ = false;
  stale_ = false;
  storages_.clear();
  signature_.clear();
  for (const Tensor& input : inputs) signature_.emplace_back(input.dtype(), input.shape());
}

Tensor& ValueStore::Place(int value, Tensor tensor, Placement placement) {
  values_[Index(value)] = std::move(tensor);
  current_[Index(value)] = placement;
  if (placement.storage >= 0) ++storages_[Index(placement.storage)].live;
  return values_[Index(value)];
}

// Allocates a buffer for a value in a run that records where values are stored. Once shapes have
// varied, the buffer comes from a pool.
Tensor ValueStore::Fresh(int value, DType dtype, const Shape& shape) {
  if (IsOnDeviceSide(value)) return stream_->NewTensor(dtype, shape);
  if (varying_ == nullptr) return Tensor(dtype, shape);
  const bool leaves = program_.last_use[Index(value)] == program_.kAfterTheEnd;
  OutputPool& pool = leaves ? *pool_ : *varying_;
  return Tensor(dtype, shape, pool.Take(BufferSize(Bytes(dtype, shape))), 0);
}

// Allocates a value in a run that records where values are stored, and adds the value's storage to
// the record.
Tensor& ValueStore::Record(int node, int value, DType dtype, const Shape& shape) {
  Storage storage;
  storage.bytes = Bytes(dtype, shape);
  storage.first = node;
  storage.on_device = IsOnDeviceSide(value);
  storages_.push_back(storage);
  ++allocations_;
  return Place(value, Fresh(value, dtype, shape),
               {Origin::kOwned, static_cast<int>(storages_.size()) - 1});
}

// Allocates a buffer for a value that does not fit the memory plan, and makes the next run record
// again.
Tensor& ValueStore::Deviate(int value, DType dtype, const Shape& shape) {
  stale_ = true;
  ++allocations_;
  Tensor tensor = IsOnDeviceSide(value) ? stream_->NewTensor(dtype, shape) : Tensor(dtype, shape);
  return Place(value, std::move(tensor), Placement{});
}

Tensor& ValueStore::Allocate(int node, int value, DType dtype, const Shape& shape) {
  if (!planned_) return Record(node, value, dtype, shape);
  const Placement placement = plan_[Index(value)];
  if (placement.origin != Origin::kOwned) return Deviate(value, dtype, shape);
  const Storage& storage = storages_[Index(placement.storage)];
  if (Bytes(dtype, shape) > storage.bytes) return Deviate(value, dtype, shape);
  // A graph output keeps its buffer after the run, so it gets a buffer of its own instead of bytes
  // of the arena.
  if (storage.escapes) {
    auto own = storage.on_device ? stream_->Allocate(storage.bytes) : pool_->Take(storage.bytes);
    return Place(value, Tensor(dtype, shape, std::move(own), 0), placement);
  }
  const std::shared_ptr<Buffer>& arena = ArenaOf(storage.on_device);
  return Place(value, Tensor(dtype, shape, arena, storage.offset), placement);
}

// Returns whether the node may write an output over `input`. The node may if three conditions hold:
// no other value is on the storage of `input`, the node is the last reader of `input`, and only one
// of the node's inputs is this value. (A kernel of several outputs reads each input when it makes
// the output over that input.)
bool ValueStore::MayOverwrite(int node, int input, size_t bytes) const {
  const Placement placement = current_[Index(input)];
  if (placement.storage < 0 || program_.last_use[Index(input)] != node) return false;
  const std::vector<int>& inputs = program_.nodes[Index(node)].inputs;
  if (std::count(inputs.begin(), inputs.end(), input) != 1) return false;
  const Storage& storage = storages_[Index(placement.storage)];
  return storage.live == 1 && bytes <= storage.bytes;
}

Tensor& ValueStore::AllocateOver(int node, int value, int input, DType dtype, const Shape& shape) {
  const bool may_overwrite = MayOverwrite(node, input, Bytes(dtype, shape));
  const Tensor over = values_[Index(input)];
  const Placement placement = {Origin::kOver, current_[Index(input)].storage};
  if (!planned_) {
    if (!may_overwrite) return Record(node, value, dtype, shape);
  } else {
    // The value may overwrite only the storage that the plan has chosen for it. Otherwise later
    // values of the plan would overlap the value.
    const Placement planned = plan_[Index(value)];
    if (planned.origin != Origin::kOver) return Allocate(node, value, dtype, shape);
    if (!may_overwrite || planned.storage != placement.storage) {
      return Deviate(value, dtype, shape);
    }
  }
  return Place(value, Tensor(dtype, shape, over.buffer(), over.offset()), placement);
}

// Returns the storage whose bytes `tensor` shares, if an input of the node is on this storage.
// Returns -1 if `tensor` shares the bytes of no input.
int ValueStore::StorageOf(const Tensor& tensor, absl::Span<const int> inputs) const {
  for (const int input : inputs) {
    if (input < 0 || values_[Index(input)].buffer() != tensor.buffer()) continue;
    const int storage = current_[Index(input)].storage;
    // All storages of an arena share one buffer, so the storage is found by its byte range.
    if (storage < 0 || !IsInArena(storage)) return storage;
    const size_t begin = storages_[Index(storage)].offset;
    if (tensor.offset() >= begin &&
        tensor.offset() + tensor.num_bytes() <= begin + storages_[Index(storage)].bytes) {
      return storage;
    }
  }
  return -1;
}

void ValueStore::Forward(int value, const Tensor& tensor, absl::Span<const int> inputs) {
  const int storage = StorageOf(tensor, inputs);
  if (storage >= 0 && IsInArena(storage) && plan_[Index(value)].storage != storage) {
    // According to the plan, the forwarded bytes may be reused while this value still lives. So the
    // value gets a copy of the bytes.
    stale_ = true;
    ++allocations_;
    Place(value, IsOnDeviceSide(value) ? stream_->Clone(tensor) : tensor.Clone(), Placement{});
    return;
  }
  Place(value, tensor, {storage >= 0 ? Origin::kShared : Origin::kExternal, storage});
}

void ValueStore::Release(int node, absl::Span<const int> values) {
  for (const int value : values) {
    const int storage = current_[Index(value)].storage;
    if (storage >= 0) --storages_[Index(storage)].live;
    values_[Index(value)] = Tensor();
  }
  if (fill_dead_memory_ && planned_) FillBehind(node);
}

// Fills with NaN the storages that no node after `node` reads. All bits set are a NaN for each
// float type.
void ValueStore::FillBehind(int node) {
  for (const Storage& storage : storages_) {
    if (storage.escapes || storage.last != node) continue;
    const Shape bytes({static_cast<int64_t>(storage.bytes)});
    Tensor dead(DType::kUint8, bytes, ArenaOf(storage.on_device), storage.offset);
    Tensor nan(DType::kUint8, bytes);
    Tensor& filled = storage.on_device ? nan : dead;
    std::fill_n(filled.mutable_data<uint8_t>(), storage.bytes, uint8_t{0xff});
    // `nan` is the source of a posted copy, so it is kept until the end of the run.
    if (!storage.on_device) continue;
    stream_->CopyToDevice(nan, dead);
    fills_.push_back(std::move(nan));
  }
}

// Computes the offsets of all storages in one memory (the device's or the host's), and makes the
// memory's arena larger if necessary.
void ValueStore::PlanArena(bool on_device) {
  std::vector<LiveRange> ranges;
  std::vector<Storage*> placed;
  for (Storage& storage : storages_) {
    if (storage.escapes || storage.on_device != on_device) continue;
    ranges.push_back({storage.bytes, storage.first, storage.last});
    placed.push_back(&storage);
  }
  const MemoryPlan plan = PlanMemory(ranges);
  for (size_t i = 0; i < placed.size(); ++i) placed[i]->offset = plan.offsets[i];
  std::shared_ptr<Buffer>& arena = ArenaOf(on_device);
  if (arena != nullptr && arena->size() >= plan.arena_bytes) return;
  arena = on_device ? stream_->Allocate(plan.arena_bytes) : Buffer::Allocate(plan.arena_bytes);
  ++allocations_;
}

void ValueStore::Finish() {
  if (!planned_) {
    plan_ = current_;
    // A storage lives until the last reader of any value on it.
    for (size_t value = 0; value < plan_.size(); ++value) {
      if (plan_[value].storage < 0) continue;
      Storage& storage = storages_[Index(plan_[value].storage)];
      storage.last = std::max({storage.last, storage.first, program_.last_use[value]});
      storage.escapes = storage.escapes || program_.last_use[value] == program_.kAfterTheEnd;
    }
    PlanArena(/*on_device=*/false);
    if (stream_ != nullptr) PlanArena(/*on_device=*/true);
    planned_ = true;
  }
  fills_.clear();
  std::fill(values_.begin(), values_.end(), Tensor());
}

// A failed run may have recorded only some of its values, so the next run must record.
void ValueStore::Abandon() {
  planned_ = false;
  fills_.clear();
  std::fill(values_.begin(), values_.end(), Tensor());
}

}  // namespace cohort
