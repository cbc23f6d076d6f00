#pragma once

// The grouping of gradients that travel together. Gradients come in the reverse of the order of
// their variables in the model, because the backward pass makes the last one first, and are put
// into buckets greedily: a new bucket begins when the one before exceeds its size, as TensorFlow
// packs them (cross_device_utils.group_by_size). Each element type has buckets of its own. The plan
// depends on names, types and sizes alone, so every rank makes the same plan, and its buckets start
// in its order.

#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"

namespace cohort {

struct BucketItem {
  std::string name;
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
};

inline constexpr int64_t kNcclBucketBytes = int64_t{25} << 20;  // for calls that wait for all ranks

struct BucketOptions {
  // 0: the sizes below; the first bucket is small so that something travels early.
  int64_t bytes_per_pack = 0;
  int64_t automatic_bytes = int64_t{4} << 20;
  int64_t automatic_first_bytes = int64_t{1} << 20;
};

struct Bucket {
  DType dtype = DType::kFloat32;
  std::vector<size_t> items;     // indices into the given list
  std::vector<int64_t> offsets;  // where each item begins, in elements
  int64_t elements = 0;

  // A hash of types, sizes and names: CollectiveCall::layout.
  uint64_t layout = 0;
};

// Plans buckets in the order in which they can start, which is that of their last item. `items` are
// in the order of the model.
std::vector<Bucket> PlanBuckets(const std::vector<BucketItem>& items, const BucketOptions& options);

}  // namespace cohort
