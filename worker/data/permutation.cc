#include "worker/data/permutation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {

Permutation::Permutation(uint64_t n, const RandomStream& random) : n_(n) {
  if (n <= kTableMax) {
    table_.resize(n);
    inverse_.resize(n);
    for (uint32_t i = 0; i < n; ++i) table_[i] = i;
    for (uint64_t i = n; i > 1; --i) std::swap(table_[i - 1], table_[random.Below(i, i)]);
    for (uint32_t i = 0; i < n; ++i) inverse_[table_[i]] = i;
    return;
  }
  left_ = static_cast<uint64_t>(std::sqrt(static_cast<double>(n)));
  while (left_ * left_ < n) ++left_;
  right_ = (n + left_ - 1) / left_;
  for (int round = 0; round < kRounds; ++round) {
    keys_[round] = random.Bits(static_cast<uint64_t>(round));
  }
}

uint64_t Permutation::At(uint64_t place) const {
  if (!table_.empty()) return table_[place];
  do {
    place = Encrypt(place);
  } while (place >= n_);
  return place;
}

uint64_t Permutation::PlaceOf(uint64_t number) const {
  if (!inverse_.empty()) return inverse_[number];
  do {
    number = Decrypt(number);
  } while (number >= n_);
  return number;
}

uint64_t Permutation::Hash(int round, uint64_t half, uint64_t bound) const {
  const uint64_t bits = Mix64(half ^ keys_[round]);
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

uint64_t Permutation::Encrypt(uint64_t number) const {
  uint64_t left = number / right_;
  uint64_t right = number % right_;
  for (int round = 0; round < kRounds; round += 2) {
    left = (left + Hash(round, right, left_)) % left_;
    right = (right + Hash(round + 1, left, right_)) % right_;
  }
  return left * right_ + right;
}

uint64_t Permutation::Decrypt(uint64_t number) const {
  uint64_t left = number / right_;
  uint64_t right = number % right_;
  for (int round = kRounds - 2; round >= 0; round -= 2) {
    right = (right + right_ - Hash(round + 1, left, right_)) % right_;
    left = (left + left_ - Hash(round, right, left_)) % left_;
  }
  return left * right_ + right;
}

namespace {

uint64_t BlocksOf(const BlockOrderOptions& options) {
  return (options.records + options.block - 1) / options.block;
}

}  // namespace

BlockOrder::BlockOrder(const BlockOrderOptions& options, uint64_t seed, uint64_t pass)
    : options_(options),
      blocks_(BlocksOf(options)),
      random_(RandomStream(seed, "blocks").Child(pass)),
      order_(blocks_, random_),
      short_place_(blocks_) {
  if (options.records % options.block != 0) short_place_ = order_.PlaceOf(blocks_ - 1);
}

uint64_t BlockOrder::RecordsBefore(uint64_t count) const {
  const uint64_t whole = count * options_.block;
  return count > short_place_ ? whole - (options_.block - options_.records % options_.block)
                              : whole;
}

uint64_t BlockOrder::At(uint64_t place, Cursor& cursor) const {
  // The window of the place. A block with fewer records moves the places behind it back.
  uint64_t window = place / (options_.block * options_.window);
  if (place >= RecordsBefore(std::min((window + 1) * options_.window, blocks_))) ++window;
  const uint64_t first = window * options_.window;
  const uint64_t last = std::min(first + options_.window, blocks_);
  const uint64_t begin = RecordsBefore(first);
  const uint64_t count = RecordsBefore(last) - begin;
  if (cursor.mixed == nullptr || cursor.window != window) {
    cursor = {window, std::make_unique<const Permutation>(count, random_.Child(window + 1))};
  }
  // The place among the records of the window, in the order of its blocks.
  const uint64_t at = begin + cursor.mixed->At(place - begin);
  uint64_t block = first + (at - begin) / options_.block;
  if (at >= RecordsBefore(block + 1)) ++block;
  return order_.At(block) * options_.block + (at - RecordsBefore(block));
}

}  // namespace cohort
