#pragma once

// A variable is cut along axis 0 into slices of consecutive rows, by TensorFlow's "div" rule. Of d
// rows in n slices, each slice has d / n rows, and the first d % n slices have one row more: 13
// rows in 5 slices give 3, 3, 3, 2, 2. A scalar is one slice that counts as one row.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/rng.h"

namespace cohort {

struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
  friend bool operator==(const RowRange& a, const RowRange& b) {
    return a.begin == b.begin && a.count == b.count;
  }
};

// Divides `rows` rows into `slices` ranges. If `slices` is larger than `rows`, each row is a range
// of its own (TensorFlow's min(n, dim0)). Both arguments must be at least 1.
std::vector<RowRange> DivRows(int64_t rows, int64_t slices);

// The number of buckets over which a hash spreads the 64-bit keys of a dynamic table. A slice of a
// dynamic table is a range of buckets, just as a slice of any other variable is a range of rows. So
// any number of slices covers all keys, and the bucket of a key does not depend on the number of
// slices. The hash tables inside a slice use other hash functions.
inline constexpr int64_t kKeyBuckets = int64_t{1} << 16;

// Returns a hash of `key` that no other key has. In ascending order of these hashes, the keys of
// one bucket are adjacent, and the buckets ascend.
constexpr uint64_t KeyOrder(int64_t key) {
  return Mix64(static_cast<uint64_t>(key) ^ 0x6b65795f6f726472u);
}

// Returns the bucket of `key`, in [0, kKeyBuckets).
constexpr int64_t KeyBucket(int64_t key) { return static_cast<int64_t>(KeyOrder(key) >> 48); }

}  // namespace cohort
