#pragma once

#include <cstdint>

#include "common/base/rng.h"

namespace cohort {

// The random generator of a simulation or a random test: one long sequence. Thread-compatible.
class SequenceRng {
 public:
  explicit SequenceRng(uint64_t seed) : stream_(seed, "sequence") {}
  uint64_t Next() { return stream_.Bits(counter_++); }
  uint64_t Below(uint64_t bound) { return stream_.Below(counter_++, bound); }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  RandomStream stream_;
  uint64_t counter_ = 0;
};

}  // namespace cohort
