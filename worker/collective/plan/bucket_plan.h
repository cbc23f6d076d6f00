#pragma once

// The grouping of gradients into buckets that travel together. Gradients come in the reverse order
// of their variables in the model, because the backward pass makes the last gradient first.
// Gradients are put into buckets greedily: a new bucket begins when the bucket before exceeds its
// size, as TensorFlow packs gradients (cross_device_utils.group_by_size). Each element type has its
// own buckets. The plan depends on names, types and sizes alone, so every rank makes the same plan
// and starts the buckets in the same order.

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

// The size in bytes of gradient buckets for NCCL, whose calls wait for all ranks.
inline constexpr int64_t kNcclBucketBytes = int64_t{25} << 20;

struct BucketOptions {
  // The size of every bucket in bytes, or 0 for the two automatic sizes below. The automatic first
  // bucket is small, so that some gradients are sent early.
  int64_t bytes_per_pack = 0;
  int64_t automatic_bytes = int64_t{4} << 20;
  int64_t automatic_first_bytes = int64_t{1} << 20;
};

struct Bucket {
  DType dtype = DType::kFloat32;
  std::vector<size_t> items;     // indices into the items that were passed to PlanBuckets
  std::vector<int64_t> offsets;  // where each item begins in the bucket, in elements
  int64_t elements = 0;

  // A hash of the types, sizes and names of the items: the CollectiveCall::layout of the bucket.
  uint64_t layout = 0;
};

// Groups items into buckets. The buckets are returned in the order in which their last gradients
// are made, which is the order in which the buckets can start. `items` are in the order of the
// model.
std::vector<Bucket> PlanBuckets(const std::vector<BucketItem>& items, const BucketOptions& options);

}  // namespace cohort
