#pragma once

// The hashes by which Keras's preprocessing layers put values into bins, equal to TensorFlow's to
// the bit. Functions of their arguments alone; thread-safe.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cohort {

// FarmHash's Fingerprint64, which tf.strings.to_hash_bucket_fast takes.
uint64_t Fingerprint64(absl::string_view bytes);

// SipHash-2-4 (Aumasson and Bernstein, 2012) under a key of two numbers, which
// tf.strings.to_hash_bucket_strong takes.
using SipKey = std::array<uint64_t, 2>;
uint64_t SipHash(const SipKey& key, absl::string_view bytes);

// Keras's layer Hashing. A number is hashed as its decimal text. Immutable; thread-safe.
class HashBins {
 public:
  // Values equal to `mask` get bin 0, and all others the bins from 1 on. `bins` is at least 1.
  // Without a key, values are hashed by Fingerprint64.
  HashBins(uint64_t bins, std::optional<SipKey> key, std::optional<std::string> mask)
      : bins_(bins), key_(key), mask_(std::move(mask)) {}

  int64_t BinOf(absl::string_view value) const;
  int64_t BinOf(int64_t value) const;

 private:
  const uint64_t bins_;
  const std::optional<SipKey> key_;
  const std::optional<std::string> mask_;
};

// Keras's layer HashedCrossing, and tf.sparse.cross_hashed: the hash of one value of each input.
// Thread-compatible.
class CrossHash {
 public:
  void Add(absl::string_view value) { Join(Fingerprint64(value)); }
  // Unlike in HashBins, an integer counts as its 64 bits.
  void Add(int64_t value) { Join(static_cast<uint64_t>(value)); }
  int64_t BinOf(uint64_t bins) const { return static_cast<int64_t>(hash_ % bins); }

 private:
  void Join(uint64_t value);

  uint64_t hash_ = 0xDECAFCAFFE;  // TensorFlow's hash of no value
};

}  // namespace cohort
