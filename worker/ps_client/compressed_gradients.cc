#include "worker/ps_client/compressed_gradients.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "common/runtime/kernel/half_floats.h"

namespace cohort {

namespace {

// Returns the bits of the absolute value of a float. Compared as integers, these bits have the
// order of the absolute values, with NaN above all numbers.
uint32_t SizeOf(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

}  // namespace

std::vector<int32_t> LargestElements(absl::Span<const float> elements, size_t count) {
  std::vector<int32_t> positions;
  if (count == 0) return positions;
  std::vector<uint32_t> sizes(elements.size());
  std::transform(elements.begin(), elements.end(), sizes.begin(), SizeOf);
  // nth_element() finds the smallest of the `count` largest absolute values in linear time.
  const auto last = sizes.begin() + static_cast<ptrdiff_t>(count - 1);
  std::nth_element(sizes.begin(), last, sizes.end(), std::greater<uint32_t>());
  const uint32_t smallest = *last;
  // The number of elements with exactly this smallest value that belong to the `count` largest.
  auto equal = static_cast<size_t>(std::count(sizes.begin(), last + 1, smallest));
  positions.reserve(count);
  // One pass collects the positions in ascending order, so they need no sort.
  for (size_t i = 0; i < elements.size(); ++i) {
    const uint32_t size = SizeOf(elements[i]);
    if (size < smallest || (size == smallest && equal == 0)) continue;
    if (size == smallest) --equal;
    positions.push_back(static_cast<int32_t>(i));
  }
  return positions;
}

TopK KeepLargest(absl::Span<const float> gradient, std::vector<float> residual, size_t count,
                 DType dtype) {
  TopK kept;
  std::vector<float>& sum = kept.left_if_taken;
  sum.assign(gradient.begin(), gradient.end());
  for (size_t i = 0; i < residual.size(); ++i) sum[i] += residual[i];
  const std::vector<int32_t> positions = LargestElements(sum, count);
  const Shape shape{static_cast<int64_t>(count)};
  kept.positions = Tensor::FromVector(positions, shape);
  std::vector<float> values;
  values.reserve(count);
  for (const int32_t i : positions) values.push_back(sum[static_cast<size_t>(i)]);
  kept.values = NarrowTensor(Tensor::FromVector(values, shape), dtype);
  // The rest of an element is its value minus the rounded value that is sent, so the rounding error
  // is sent in a later push.
  const Tensor carried = WidenTensor(kept.values);
  for (size_t k = 0; k < count; ++k) {
    const auto i = static_cast<size_t>(positions[k]);
    const float left = sum[i] - carried.data<float>()[k];
    // An infinite or NaN residual would spoil every later gradient of the slice, so it is dropped.
    sum[i] = std::isfinite(left) ? left : 0;
    // The push sends the old residual of this element, so none of it stays.
    if (!residual.empty()) residual[i] = 0;
  }
  kept.left_otherwise = std::move(residual);
  return kept;
}

std::vector<float> GradientResiduals::Take(uint64_t epoch, uint32_t slice_id, size_t elements) {
  // The residuals of the epoch before, destroyed after the lock is released.
  std::map<uint32_t, std::vector<float>> old;
  MutexLock lock(mutex_);
  // In a new epoch, training may go back to an earlier cut. Residuals of steps after this cut would
  // then count twice, so all residuals are dropped.
  if (epoch > epoch_) {
    old.swap(left_);
    epoch_ = epoch;
  }
  const auto found = left_.find(slice_id);
  // A residual of another size belongs to an earlier layout of the slice and is not used.
  if (epoch < epoch_ || found == left_.end() || found->second.size() != elements) return {};
  return std::exchange(found->second, {});
}

void GradientResiduals::Add(uint64_t epoch, uint32_t slice_id, std::vector<float> left) {
  if (left.empty()) return;
  MutexLock lock(mutex_);
  if (epoch != epoch_) return;
  std::vector<float>& held = left_[slice_id];
  if (held.empty()) {
    held = std::move(left);
    return;
  }
  // Another push of the slice has added its residual meanwhile, so the two residuals are added up.
  for (size_t i = 0; i < held.size() && i < left.size(); ++i) held[i] += left[i];
}

size_t CompressedGradients::KeptOf(size_t count) const {
  if (compression_.top_k <= 0 || count == 0) return count;
  // At least one element of a slice is sent, so the largest element always arrives.
  const double wanted = std::ceil(compression_.top_k * static_cast<double>(count));
  const size_t kept = std::clamp<size_t>(static_cast<size_t>(wanted), 1, count);
  // An element that is sent costs its value and a position of 4 bytes. If sending fewer elements
  // with positions saves no bytes, all elements are sent without positions.
  const size_t value_bytes = ElementSize(compression_.push);
  return kept * (sizeof(int32_t) + value_bytes) < count * value_bytes ? kept : count;
}

void CompressedGradients::Add(Kind kind, const Tensor& value, Elements elements,
                              proto::PushSlice& pushed, Payload& payload) {
  const size_t count = elements.count;
  if (count == 0) return;
  const size_t offset = elements.first * ElementSize(value.dtype());
  // Values that are not float32, and values that are sent whole in float32, travel without a copy.
  const size_t kept = kind == Kind::kSlice ? KeptOf(count) : count;
  if (value.dtype() != DType::kFloat32 || (compression_.push == DType::kFloat32 && kept == count)) {
    payload.push_back(SliceOf(value, {offset, count * ElementSize(value.dtype())}));
    return;
  }
  const absl::Span<const float> floats(value.data<float>() + elements.first, count);
  proto::TensorMeta& meta = *pushed.mutable_tensor();
  meta.set_dtype(static_cast<int32_t>(compression_.push));
  if (kept == count) {
    Tensor narrow(compression_.push, Shape{static_cast<int64_t>(count)});
    NarrowFloats(floats.data(), count, compression_.push,
                 reinterpret_cast<uint16_t*>(narrow.mutable_raw()));
    payload.push_back(SliceOf(narrow));
    return;
  }
  // Take() removes the residual of the slice, so that a concurrent push cannot send it a second
  // time.
  const uint32_t id = pushed.slice_id();
  // `pushed.tensor` describes the values of the largest elements, and `pushed.positions` their
  // positions.
  TopK top = KeepLargest(floats, residuals_->Take(epoch_, id, count), kept, compression_.push);
  meta.clear_dims();
  meta.add_dims(static_cast<int64_t>(kept));
  *pushed.mutable_positions() = MetaOf(top.positions);
  payload.push_back(SliceOf(top.positions));
  payload.push_back(SliceOf(top.values));
  left_.push_back({id, std::move(top.left_if_taken), std::move(top.left_otherwise)});
}

void CompressedGradients::Settle(absl::Span<const uint32_t> taken) {
  // Without the answer that a slice's push was applied, it is unknown whether it was. Then only the
  // part of the old residual that the push did not send is kept.
  for (Left& left : left_) {
    const bool was_taken = std::find(taken.begin(), taken.end(), left.slice_id) != taken.end();
    residuals_->Add(epoch_, left.slice_id, std::move(was_taken ? left.if_taken : left.otherwise));
  }
  left_.clear();
}

}  // namespace cohort
