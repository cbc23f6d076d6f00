#include "worker/ps_client/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "common/runtime/kernel/half_floats.h"

namespace cohort {

namespace {

// Sizes of floats are in the order of these bits, and NaN is above all.
uint32_t SizeOf(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

}  // namespace

std::vector<int32_t> LargestElements(absl::Span<const float> elements, size_t count) {
  std::vector<int32_t> positions;
  if (count == 0) return positions;
  std::vector<uint32_t> sizes(elements.size());
  std::transform(elements.begin(), elements.end(), sizes.begin(), SizeOf);
  const auto last = sizes.begin() + static_cast<ptrdiff_t>(count - 1);
  std::nth_element(sizes.begin(), last, sizes.end(), std::greater<uint32_t>());
  const uint32_t smallest = *last;
  // The number that may still travel of those as large as the smallest one that does.
  auto equal = static_cast<size_t>(std::count(sizes.begin(), last + 1, smallest));
  positions.reserve(count);
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
  const Tensor carried = WidenTensor(kept.values);
  for (size_t k = 0; k < count; ++k) {
    const auto i = static_cast<size_t>(positions[k]);
    const float left = sum[i] - carried.data<float>()[k];
    sum[i] = std::isfinite(left) ? left : 0;
    if (!residual.empty()) residual[i] = 0;
  }
  kept.left_otherwise = std::move(residual);
  return kept;
}

}  // namespace cohort
