#pragma once

// The division of gradients into buckets, each of which is summed by one call. Gradients are taken
// in the reverse order of their variables in the model, because the backward pass makes the last
// one first. A bucket takes gradients until its size exceeds the limit, as TensorFlow packs
// gradients (cross_device_utils.group_by_size). Each element type has its own buckets. The buckets
// depend on names, types and sizes alone, so every rank makes the same buckets and starts them in
// the same order.

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

// The size of a bucket for NCCL, in bytes; large, because every call of NCCL waits for all ranks.
inline constexpr int64_t kNcclBucketBytes = int64_t{25} << 20;

struct BucketOptions {
  // Limit for every bucket, or 0 for the two automatic limits below. The automatic limit of the
  // first bucket is small, so that some gradients are sent early.
  int64_t bytes_per_pack = 0;
  int64_t automatic_bytes = int64_t{4} << 20;
  int64_t automatic_first_bytes = int64_t{1} << 20;
};

struct Bucket {
  DType dtype = DType::kFloat32;
  std::vector<size_t> items;     // indices of the bucket's items in the `items` of PlanBuckets()
  std::vector<int64_t> offsets;  // place where each item begins in the bucket, in elements
  int64_t elements = 0;

  // A hash of the types, sizes and names of the items, by which ranks compare their plans
  // (CollectiveCall::layout).
  uint64_t layout = 0;
};

// Divides `items`, which are in the order of the model, into buckets. Returns the buckets in the
// order in which they can start, which is the order in which their last gradients are made.
std::vector<Bucket> PlanBuckets(const std::vector<BucketItem>& items, const BucketOptions& options);

}  // namespace cohort
