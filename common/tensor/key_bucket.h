#pragma once

// Which parameter server has the row of a 64-bit key: keys fall into 2^16 buckets by a hash of
// theirs, and a slice of a dynamic table is a range of buckets, as a slice of any other variable is
// a range of rows. So any number of slices covers all keys, and a key is in the bucket it was in
// whatever the number of slices. The hash is none that a table uses within a slice.

#include <cstdint>

#include "common/base/rng.h"

namespace cohort {

inline constexpr int64_t kKeyBuckets = int64_t{1} << 16;

// No two keys have the same; in its order keys of one bucket lie together, by ascending buckets.
constexpr uint64_t KeyOrder(int64_t key) {
  return Mix64(static_cast<uint64_t>(key) ^ 0x6b65795f6f726472u);
}

// In [0, kKeyBuckets).
constexpr int64_t KeyBucket(int64_t key) { return static_cast<int64_t>(KeyOrder(key) >> 48); }

}  // namespace cohort
