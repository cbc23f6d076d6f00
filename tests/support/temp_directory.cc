#include "tests/support/temp_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

TempDirectory::TempDirectory(absl::string_view stem) {
  const char* base = std::getenv("TMPDIR");
  path_ = absl::StrCat(base == nullptr ? "/tmp" : base, "/", stem, "-XXXXXX");
  COHORT_CHECK(mkdtemp(path_.data()) != nullptr, "a temporary directory");
}

TempDirectory::~TempDirectory() {
  // In a program that is no test nothing has failed.
  if (keep_ || testing::Test::HasFailure()) {
    std::fprintf(stderr, "left for inspection: %s\n", path_.c_str());
    return;
  }
  // A task that is just ending may still write its log: what comes meanwhile is removed too.
  std::error_code error;
  for (int i = 0; i < 3 && std::filesystem::exists(path_, error); ++i) {
    std::filesystem::remove_all(path_, error);
  }
}

std::string TempDirectory::operator/(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

}  // namespace cohort
