#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace cohort {

// A new directory under TMPDIR that goes away with this object, with everything in it. After a
// failed test, or Keep, it stays and its path is printed. Thread-compatible.
class TempDirectory {
 public:
  explicit TempDirectory(absl::string_view stem);
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  // The path of an entry.
  std::string operator/(absl::string_view name) const;
  void Keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_ = false;
};

}  // namespace cohort
