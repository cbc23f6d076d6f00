#include "common/program/content_hash.h"

#include <cstdint>

#include "absl/strings/str_format.h"
#include "common/base/rng.h"

namespace cohort {
namespace {

// Eight bytes, the first lowest, whatever the machine's byte order; missing ones are 0.
uint64_t Word(absl::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size() && i < 8; ++i) {
    word |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return word;
}

}  // namespace

std::string ContentHash(absl::string_view bytes) {
  // Two chains of Mix64 with different starts; each word enters both, and they cross, so neither is
  // a function of the other. The length goes in first, so padding with zeros changes the hash.
  uint64_t a = Mix64(bytes.size() + 0x9e3779b97f4a7c15u);
  uint64_t b = Mix64(bytes.size() ^ 0xc2b2ae3d27d4eb4fu);
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t word = Word(bytes.substr(at));
    a = Mix64(a ^ word) + b;
    b = Mix64(b + (word * 0x9e3779b97f4a7c15u)) ^ (a << 1);
  }
  a = Mix64(a ^ (b >> 7));
  b = Mix64(b + a);
  return absl::StrFormat("%016x%016x", a, b);
}

}  // namespace cohort
