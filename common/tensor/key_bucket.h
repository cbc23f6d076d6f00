#pragma once

// The assignment of 64-bit keys to parameter servers. A hash puts keys into 2^16 buckets, and a
// slice of a dynamic table is a range of buckets, as a slice of any other variable is a range of
// rows. So any number of slices covers all keys, and the bucket of a key does not depend on the
// number of slices. Tables use other hashes within a slice.

#include <cstdint>

#include "common/base/rng.h"

namespace cohort {

inline constexpr int64_t kKeyBuckets = int64_t{1} << 16;

// Returns a number that no two keys share; in the order of these numbers the keys of one bucket lie
// together, by ascending bucket.
constexpr uint64_t KeyOrder(int64_t key) {
  return Mix64(static_cast<uint64_t>(key) ^ 0x6b65795f6f726472u);
}

// Returns the key's bucket, in [0, kKeyBuckets).
constexpr int64_t KeyBucket(int64_t key) { return static_cast<int64_t>(KeyOrder(key) >> 48); }

}  // namespace cohort
