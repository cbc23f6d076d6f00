#pragma once

// Counter-based random numbers: element i of a stream depends only on (seed, name of the stream,
// i). So the values do not depend on how a tensor is cut into slices, on the threads that draw the
// values, or on retries. The mixing function is the finalizer of SplitMix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014), applied to key + i * golden
// ratio.

#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace cohort {

constexpr uint64_t Mix64(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Returns the FNV-1a hash of `text`. Unlike absl::Hash, this hash is the same in every process.
constexpr uint64_t StableHash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// A stream of random numbers, read by index and in any order. Immutable; thread-safe.
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, absl::string_view name)
      : key_(Mix64(Mix64(seed) ^ StableHash(name))) {}

  // Returns the sub-stream number `index` of this stream, such as the stream of one training step
  // or of one pass over the data.
  constexpr RandomStream Child(uint64_t index) const {
    return RandomStream(Mix64(key_ ^ Mix64(index)));
  }

  constexpr uint64_t key() const { return key_; }
  constexpr uint64_t Bits(uint64_t i) const { return Mix64(key_ + i * 0x9e3779b97f4a7c15u); }

  // Returns element `i` of the stream as a number in [0, 1) with 24 random bits.
  constexpr float Uniform(uint64_t i) const {
    return static_cast<float>(Bits(i) >> 40) * 0x1.0p-24f;
  }

  // Returns element `i` of the stream as a standard normal number, by the Box-Muller transform of
  // the two halves of one 64-bit draw.
  float Normal(uint64_t i) const {
    const uint64_t bits = Bits(i);
    // u is the random number in (0, 1] whose logarithm is taken, so the logarithm is finite.
    const double u = (static_cast<double>(bits >> 32) + 1.0) * 0x1.0p-32;
    const double v = static_cast<double>(bits & 0xffffffffu) * 0x1.0p-32;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v));
  }

  // Returns element `i` of the stream as a number in [0, bound), for a `bound` above 0. The bias is
  // below bound / 2^64.
  uint64_t Below(uint64_t i, uint64_t bound) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Bits(i)) * bound) >> 64);
  }

 private:
  explicit constexpr RandomStream(uint64_t key) : key_(key) {}
  uint64_t key_;
};

}  // namespace cohort
