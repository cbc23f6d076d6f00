#pragma once

// The assignment of 64-bit keys of dynamic tables to parameter servers. A hash maps each key to one
// of 2^16 buckets. A slice of a dynamic table is a range of buckets, just as a slice of any other
// variable is a range of rows. So any number of slices covers all keys, and the bucket of a key
// does not depend on the number of slices. Inside a slice, tables use other hashes.

#include <cstdint>

#include "common/base/rng.h"

namespace cohort {

inline constexpr int64_t kKeyBuckets = int64_t{1} << 16;

// Returns a number that no other key has. If keys are sorted by this number, the keys of one bucket
// are adjacent and the buckets ascend.
constexpr uint64_t KeyOrder(int64_t key) {
  return Mix64(static_cast<uint64_t>(key) ^ 0x6b65795f6f726472u);
}

// Returns the bucket of `key`, in [0, kKeyBuckets).
constexpr int64_t KeyBucket(int64_t key) { return static_cast<int64_t>(KeyOrder(key) >> 48); }

}  // namespace cohort
