#include "common/task/data_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

std::string Describe(const proto::DataFile& file) {
  return absl::StrCat(file.path(), " (", file.bytes(), " bytes, checksum ",
                      absl::Hex(file.crc32c(), absl::kZeroPad8), ")");
}

}  // namespace

std::string FirstDifference(const FilesOfReader& one, const FilesOfReader& other) {
  const int common = std::min(one.files.size(), other.files.size());
  for (int i = 0; i < common; ++i) {
    const proto::DataFile& of_one = one.files[i];
    const proto::DataFile& of_other = other.files[i];
    if (of_one.bytes() == of_other.bytes() && of_one.crc32c() == of_other.crc32c()) continue;
    return absl::StrCat("; the first file that differs: ", one.reader, " read ", Describe(of_one),
                        ", and ", other.reader, " ", Describe(of_other));
  }
  return "";
}

}  // namespace cohort
