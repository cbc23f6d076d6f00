#include "ps_server/variable_shard.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "common/base/status.h"

namespace cohort {

namespace {

constexpr size_t kBlockFloats = kBlockBytes / sizeof(float);

absl::Span<const float> Floats(const Tensor& tensor, size_t begin, size_t count) {
  return {reinterpret_cast<const float*>(tensor.raw()) + begin, count};
}
absl::Span<float> MutableFloats(Tensor& tensor, size_t begin, size_t count) {
  return {reinterpret_cast<float*>(tensor.mutable_raw()) + begin, count};
}

}  // namespace

absl::StatusOr<std::unique_ptr<VariableShard>> VariableShard::Create(SliceLayout layout) {
  std::unique_ptr<UpdateKernel> kernel;
  if (layout.dtype == DType::kFloat32) {
    ASSIGN_OR_RETURN(kernel, MakeUpdateKernel(layout.rule));
  }
  ASSIGN_OR_RETURN(Tensor value, InitialRows(layout.initializer, layout.variable, layout.dtype,
                                             layout.full_shape, layout.rows));
  return std::unique_ptr<VariableShard>(
      new VariableShard(std::move(layout), std::move(value), std::move(kernel)));
}

VariableShard::VariableShard(SliceLayout layout, Tensor value, std::unique_ptr<UpdateKernel> kernel)
    : layout_(std::move(layout)),
      shape_(layout_.shape()),
      num_bytes_(value.num_bytes()),
      kernel_(std::move(kernel)),
      value_(std::move(value)) {
  for (const SlotSpec& slot : layout_.rule_spec.slots) {
    slots_.push_back(Tensor(DType::kFloat32, shape_));
    const absl::Span<float> floats =
        MutableFloats(slots_.back(), 0, static_cast<size_t>(shape_.num_elements()));
    std::fill(floats.begin(), floats.end(), slot.initial_value);
  }
}

VariableShard::Reading VariableShard::Read() const {
  MutexLock lock(mutex_);
  return {{value_.Lease(), value_.current().raw(), num_bytes_}, version_};
}

absl::StatusOr<VariableShard::Applied> VariableShard::Apply(
    PayloadCursor& gradient, const UpdateContext& context,
    absl::FunctionRef<absl::StatusOr<Claim>()> claim) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Claim claimed, claim());
  if (claimed == Claim::kDuplicate) {
    gradient.Skip(num_bytes_);
    return Applied{true, version_};
  }
  switch (layout_.dtype) {
    case DType::kInt32:
      AddLocked<int32_t>(gradient);
      break;
    case DType::kInt64:
      AddLocked<int64_t>(gradient);
      break;
    default:
      ApplyFloatsLocked(gradient, context);
      break;
  }
  return Applied{false, version_++};
}

void VariableShard::ApplyFloatsLocked(PayloadCursor& gradient, const UpdateContext& context) {
  const Tensor& in = value_.current();
  Tensor& out = value_.Next();
  const size_t count = static_cast<size_t>(in.num_elements());
  UpdateStep step;
  step.learning_rate = context.learning_rate;
  step.step = context.step;
  step.slots.resize(slots_.size());
  for (size_t begin = 0; begin < count; begin += kBlockFloats) {
    const size_t block = std::min(kBlockFloats, count - begin);
    const std::byte* const bytes = gradient.Next(block * sizeof(float));
    step.gradient = {reinterpret_cast<const float*>(bytes), block};
    step.value_in = Floats(in, begin, block);
    step.value_out = MutableFloats(out, begin, block);
    for (size_t i = 0; i < slots_.size(); ++i) {
      step.slots[i] = MutableFloats(slots_[i], begin, block);
    }
    kernel_->Apply(step);
  }
  value_.Commit();
}

template <typename T>
void VariableShard::AddLocked(PayloadCursor& gradient) {
  using Unsigned = std::make_unsigned_t<T>;  // wraps around; a peer's numbers must not be undefined
  constexpr size_t kBlock = kBlockBytes / sizeof(T);
  const T* const in = value_.current().data<T>();
  T* const out = value_.Next().mutable_data<T>();
  const size_t count = static_cast<size_t>(value_.current().num_elements());
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    const T* const added = reinterpret_cast<const T*>(gradient.Next(block * sizeof(T)));
    for (size_t i = 0; i < block; ++i) {
      out[begin + i] =
          static_cast<T>(static_cast<Unsigned>(in[begin + i]) + static_cast<Unsigned>(added[i]));
    }
  }
  value_.Commit();
}

absl::Status VariableShard::Assign(PayloadCursor& value, absl::FunctionRef<absl::Status()> admit) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(admit());
  value.CopyTo(value_.Next().mutable_raw(), num_bytes_);
  value_.Commit();
  return absl::OkStatus();
}

VariableShard::Snapshot VariableShard::TakeSnapshot() const {
  MutexLock lock(mutex_);
  Snapshot snapshot{value_.current(), {}, value_.Lease()};
  for (const Tensor& slot : slots_) snapshot.slots.push_back(slot.Clone());
  return snapshot;
}

absl::Status VariableShard::Restore(const Tensor& value, const std::vector<Tensor>& slots,
                                    absl::FunctionRef<absl::Status()> admit) {
  COHORT_CHECK(value.num_bytes() == num_bytes_, "a value of the slice's shape");
  COHORT_CHECK(slots.empty() || slots.size() == layout_.rule_spec.slots.size(),
               "all slots or none");
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(admit());
  if (num_bytes_ == 0) return absl::OkStatus();
  std::memcpy(value_.Next().mutable_raw(), value.raw(), num_bytes_);
  value_.Commit();
  for (size_t i = 0; i < slots.size(); ++i) {
    COHORT_CHECK(slots[i].num_bytes() == slots_[i].num_bytes(), "a slot of the slice's shape");
    std::memcpy(slots_[i].mutable_raw(), slots[i].raw(), slots_[i].num_bytes());
  }
  return absl::OkStatus();
}

void VariableShard::Settle() const { MutexLock lock(mutex_); }

size_t VariableShard::resident_bytes() const {
  MutexLock lock(mutex_);
  size_t bytes = value_.resident_bytes();
  for (const Tensor& slot : slots_) bytes += slot.num_bytes();
  return bytes;
}

}  // namespace cohort
