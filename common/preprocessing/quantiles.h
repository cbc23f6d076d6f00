#pragma once

// Quantiles of numbers that are read in parts, by counts of equal numbers. Counts of parts give the
// same quantiles in whatever order they are joined, and whatever the parts are.
//
// Numbers count as float32. As long as at most kDistinctMax of them are distinct, quantiles are
// exact. Beyond that, low bits of the numbers are dropped, as few as give at most so many distinct
// ones, which a number then stands for: with d bits dropped, it is wrong by at most 2^(d-24) of
// itself.

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace cohort {

// Thread-compatible.
class ValueCounts {
 public:
  static constexpr size_t kDistinctMax = size_t{1} << 18;
  static constexpr int kDroppedMax = 16;

  // Adds a finite number.
  void Add(float value) { AddKey(KeyOf(value) >> dropped_, 1); }
  // Adds `count` numbers of key `key`, of which `dropped` bits, at most kDroppedMax, were dropped.
  struct Counted {
    uint32_t key = 0;
    int64_t count = 0;
  };
  void Join(const std::vector<Counted>& counted, int dropped);

  // Returns the counts, by rising key. A key is the number's bits in the order of the numbers.
  std::vector<Counted> counts() const;
  int dropped() const { return dropped_; }

  // Returns the bounds between `bins` bins with equally many numbers each, at least 1: the
  // quantiles 1/bins, 2/bins, …, as numpy.quantile's method interpolated_inverted_cdf gives them,
  // to which Keras's sketch comes near. Empty without numbers.
  std::vector<float> Boundaries(int64_t bins) const;

 private:
  static uint32_t KeyOf(float value);
  static float ValueOf(uint32_t key, int dropped);
  void AddKey(uint32_t key, int64_t count);
  void Drop(int bits);

  absl::flat_hash_map<uint32_t, int64_t> counts_;
  int dropped_ = 0;
};

}  // namespace cohort
