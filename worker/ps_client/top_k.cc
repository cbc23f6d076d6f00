#include "worker/ps_client/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "common/runtime/kernel/half_floats.h"

namespace cohort {

namespace {

// Returns the bits of a float's absolute value. Compared as integers, these bits have the order of
// absolute values, with NaN above all.
uint32_t SizeOf(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

}  // namespace

std::vector<int32_t> LargestElements(absl::Span<const float> elements, size_t count) {
  std::vector<int32_t> positions;
  if (count == 0) return positions;
  std::vector<uint32_t> sizes(elements.size());
  std::transform(elements.begin(), elements.end(), sizes.begin(), SizeOf);
  // nth_element finds the smallest absolute value that still travels, in linear time.
  const auto last = sizes.begin() + static_cast<ptrdiff_t>(count - 1);
  std::nth_element(sizes.begin(), last, sizes.end(), std::greater<uint32_t>());
  const uint32_t smallest = *last;
  // Counts how many elements of exactly the smallest travelling size may travel.
  auto equal = static_cast<size_t>(std::count(sizes.begin(), last + 1, smallest));
  positions.reserve(count);
  // One pass in ascending order collects the positions, so they need no sort.
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
  // The rest is computed from the rounded values, so the rounding errors are kept, too.
  const Tensor carried = WidenTensor(kept.values);
  for (size_t k = 0; k < count; ++k) {
    const auto i = static_cast<size_t>(positions[k]);
    const float left = sum[i] - carried.data<float>()[k];
    // An infinite or NaN rest would spoil every later gradient of the slice, so it is dropped.
    sum[i] = std::isfinite(left) ? left : 0;
    // The push carries this element's residual, so nothing of it is kept.
    if (!residual.empty()) residual[i] = 0;
  }
  kept.left_otherwise = std::move(residual);
  return kept;
}

}  // namespace cohort
