#include "worker/ps_client/compressed_gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/runtime/kernel/half_floats.h"
#include "worker/ps_client/top_k.h"

namespace cohort {

size_t CompressedGradients::KeptOf(size_t count) const {
  if (compression_.top_k <= 0 || count == 0) return count;
  // At least one element of a slice travels, so that its largest gradient always arrives.
  const double wanted = std::ceil(compression_.top_k * static_cast<double>(count));
  const size_t kept = std::clamp<size_t>(static_cast<size_t>(wanted), 1, count);
  // Each kept element costs its value and a 4-byte position. If that saves nothing, all elements
  // travel.
  const size_t value_bytes = ElementSize(compression_.push);
  return kept * (sizeof(int32_t) + value_bytes) < count * value_bytes ? kept : count;
}

void CompressedGradients::Add(Kind kind, const Tensor& value, Elements elements,
                              proto::PushSlice& pushed, Payload& payload) {
  const size_t count = elements.count;
  if (count == 0) return;
  const size_t offset = elements.first * ElementSize(value.dtype());
  // Other types, and float32 values without compression, travel without a copy.
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
  // Take() removes the residual, so that a concurrent push of the slice cannot send it, too.
  const uint32_t id = pushed.slice_id();
  // The tensor's meta describes the kept values; their positions have a meta of their own.
  TopK top = KeepLargest(floats, residuals_->Take(epoch_, id, count), kept, compression_.push);
  meta.clear_dims();
  meta.add_dims(static_cast<int64_t>(kept));
  *pushed.mutable_positions() = MetaOf(top.positions);
  payload.push_back(SliceOf(top.positions));
  payload.push_back(SliceOf(top.values));
  left_.push_back({id, std::move(top.left_if_taken), std::move(top.left_otherwise)});
}

void CompressedGradients::Settle(absl::Span<const uint32_t> taken) {
  // If no answer names a slice, its push may or may not have been applied, so only the rest is kept
  // that is unsent in both cases.
  for (Left& left : left_) {
    const bool was_taken = std::find(taken.begin(), taken.end(), left.slice_id) != taken.end();
    residuals_->Add(epoch_, left.slice_id, std::move(was_taken ? left.if_taken : left.otherwise));
  }
  left_.clear();
}

}  // namespace cohort
