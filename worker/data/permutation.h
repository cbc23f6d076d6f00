#pragma once

// Orders of records as functions: the record at any place of the order of a pass is computed from
// the seed and the pass alone, so orders are the same for any number of workers, and no process
// has to hold one.
//
// A permutation of few records is a table (Fisher and Yates). One of many is a Feistel network over
// the pairs (left, right) of a x b >= n numbers, a and b near the root of n, with six rounds that
// add in turn to one half a hash of the other; numbers of n or above are mapped again until one is
// below ("cycle walking", Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Few
// rounds make bad permutations of few numbers, which is why those are tables; both are contracts:
// a change of either changes the order of training.

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/rng.h"

namespace cohort {

// A permutation of the numbers below n. Immutable; thread-safe.
class Permutation {
 public:
  // Up to so many numbers, a permutation is a table of 4 bytes each.
  static constexpr uint64_t kTableMax = uint64_t{1} << 20;

  // The permutation of `n` numbers that `random` chooses.
  Permutation(uint64_t n, const RandomStream& random);

  uint64_t size() const { return n_; }
  // Returns the number at `place`, which is below n.
  uint64_t At(uint64_t place) const;
  // Returns the place of `number`, which is below n.
  uint64_t PlaceOf(uint64_t number) const;

 private:
  static constexpr int kRounds = 6;

  uint64_t Encrypt(uint64_t number) const;
  uint64_t Decrypt(uint64_t number) const;
  uint64_t Hash(int round, uint64_t half, uint64_t bound) const;

  const uint64_t n_;
  uint64_t left_ = 1;  // the numbers of left halves
  uint64_t right_ = 1;
  uint64_t keys_[kRounds] = {};
  std::vector<uint32_t> table_;    // At() of few numbers
  std::vector<uint32_t> inverse_;  // and PlaceOf()
};

// The order `blocks`: records are taken in blocks of neighbours, the blocks in a random order, and
// the records of so many blocks at a time are mixed with each other. A reader then reads few parts
// of few files at a time, and has at most so many blocks open.
struct BlockOrderOptions {
  uint64_t records = 0;
  uint64_t block = 1;   // records of a block; the last one may have fewer
  uint64_t window = 1;  // blocks that are mixed
};

// The order of one pass. Immutable; thread-safe.
class BlockOrder {
 public:
  // The order in the window that a reader was in last. Thread-compatible.
  struct Cursor {
    uint64_t window = 0;
    std::unique_ptr<const Permutation> mixed;
  };

  BlockOrder(const BlockOrderOptions& options, uint64_t seed, uint64_t pass);

  // Returns the record at `place`, which is below the number of records. A new window costs time
  // for each of its records, so a reader goes through the places in order, with a cursor of its
  // own.
  uint64_t At(uint64_t place, Cursor& cursor) const;

 private:
  // Returns the number of records of the first `count` blocks of the pass.
  uint64_t RecordsBefore(uint64_t count) const;

  const BlockOrderOptions options_;
  const uint64_t blocks_;
  const RandomStream random_;
  const Permutation order_;  // order of the blocks
  uint64_t short_place_;     // the place in the pass of the block that has fewer records
};

}  // namespace cohort
