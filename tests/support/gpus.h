#pragma once

// What tests share that run on GPUs (tests/gpu.sh), and are skipped everywhere else.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cohort {

// For GTEST_SKIP, in words of tests/check_skips.sh; empty: the tests can run. `first` tells whether
// there is a gpu:0, and is asked for only where the module was built.
template <typename CheckFirst>
std::string WhyNoGpu(bool is_module_built, absl::string_view library, const CheckFirst& first) {
  if (!is_module_built) return absl::StrCat("needs a build with ", library);
  const absl::Status status = first();
  return status.ok() ? "" : absl::StrCat("needs a GPU: ", status.message());
}

// What a module of another build gives, for the tests that it is refused.
template <typename Table>
const Table* TableOfAnotherVersion() {
  static const Table table = [] {
    Table other;
    ++other.version;
    return other;
  }();
  return &table;
}

}  // namespace cohort
