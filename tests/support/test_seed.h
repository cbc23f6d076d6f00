#pragma once

// Random tests begin at a seed of their own, or at the one that is to be replayed.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace cohort {

// COHORT_TEST_SEED, or `otherwise`.
inline uint64_t TestSeed(uint64_t otherwise) {
  const char* const text = std::getenv("COHORT_TEST_SEED");
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// How to run a failed case again.
inline std::string Replay(const std::string& binary, uint64_t seed, const std::string& filter) {
  return absl::StrCat("replay: COHORT_TEST_SEED=", seed, " ", binary, " --gtest_filter=", filter);
}

}  // namespace cohort
