#include "worker/ps_client/compressed_gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/runtime/kernel/half_floats.h"
#include "worker/ps_client/top_k.h"

namespace cohort {

size_t CompressedGradients::KeptOf(size_t count) const {
  if (compression_.top_k <= 0 || count == 0) return count;
  const double wanted = std::ceil(compression_.top_k * static_cast<double>(count));
  const size_t kept = std::clamp<size_t>(static_cast<size_t>(wanted), 1, count);
  const size_t value_bytes = ElementSize(compression_.push);
  return kept * (sizeof(int32_t) + value_bytes) < count * value_bytes ? kept : count;
}

void CompressedGradients::Add(Kind kind, const Tensor& value, Elements elements,
                              proto::PushSlice& pushed, Payload& payload) {
  const size_t count = elements.count;
  if (count == 0) return;
  const size_t offset = elements.first * ElementSize(value.dtype());
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
  const uint32_t id = pushed.slice_id();
  TopK top = KeepLargest(floats, residuals_->Take(epoch_, id, count), kept, compression_.push);
  meta.clear_dims();
  meta.add_dims(static_cast<int64_t>(kept));
  *pushed.mutable_positions() = MetaOf(top.positions);
  payload.push_back(SliceOf(top.positions));
  payload.push_back(SliceOf(top.values));
  left_.push_back({id, std::move(top.left_if_taken), std::move(top.left_otherwise)});
}

void CompressedGradients::Settle(absl::Span<const uint32_t> taken) {
  for (Left& left : left_) {
    const bool was_taken = std::find(taken.begin(), taken.end(), left.slice_id) != taken.end();
    residuals_->Add(epoch_, left.slice_id, std::move(was_taken ? left.if_taken : left.otherwise));
  }
  left_.clear();
}

}  // namespace cohort
