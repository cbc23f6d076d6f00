#include "common/preprocessing/hashing.h"

#include <farmhash.h>

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// The state of SipHash, by the names of the paper.
struct SipState {
  uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void Take(uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

uint64_t ShiftMix(uint64_t x) { return x ^ (x >> 47); }

}  // namespace

uint64_t Fingerprint64(absl::string_view bytes) {
  return util::Fingerprint64(bytes.data(), bytes.size());
}

uint64_t SipHash(const SipKey& key, absl::string_view bytes) {
  static_assert(std::endian::native == std::endian::little, "SipHash's words are little-endian");
  // "somepseudorandomlygeneratedbytes"
  SipState state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const uint64_t length = bytes.size();
  uint64_t word = 0;
  for (; bytes.size() >= sizeof(word); bytes.remove_prefix(sizeof(word))) {
    std::memcpy(&word, bytes.data(), sizeof(word));
    state.Take(word);
  }
  // The last word has the bytes that are left and, at the top, the length modulo 256.
  word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  state.Take(word | length << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

int64_t HashBins::BinOf(absl::string_view value) const {
  if (mask_ && value == *mask_) return 0;
  const uint64_t hash = key_ ? SipHash(*key_, value) : Fingerprint64(value);
  if (!mask_) return static_cast<int64_t>(hash % bins_);
  // With one bin alone, the mask's bin is all there is.
  return bins_ == 1 ? 0 : static_cast<int64_t>(1 + hash % (bins_ - 1));
}

int64_t HashBins::BinOf(int64_t value) const { return BinOf(absl::StrCat(value)); }

// TensorFlow's FingerprintCat64.
void CrossHash::Join(uint64_t value) {
  constexpr uint64_t kMul = 0xc6a4a7935bd1e995;
  uint64_t result = hash_ ^ kMul;
  result ^= ShiftMix(value * kMul) * kMul;
  result *= kMul;
  hash_ = ShiftMix(ShiftMix(result) * kMul);
}

}  // namespace cohort
