#pragma once

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/formats/memory_file.h"
#include "common/formats/zip_archive.h"

namespace cohort {

inline std::string FuzzSeedAt(const std::string& path) {
  std::ifstream in(std::string(COHORT_SOURCE_DIR "/tests/golden/") + path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

inline std::string ContentOf(const ReadableFile& file) {
  std::string bytes(file.size(), '\0');
  if (!file.Read(0, absl::MakeSpan(bytes)).ok()) bytes.clear();
  return bytes;
}

// Returns the members of an archive, but for those above `bytes_max`: large inputs are slow.
inline std::vector<std::string> MembersOf(const std::string& path, uint64_t bytes_max) {
  std::vector<std::string> members;
  const auto archive = ZipArchive::Open(std::make_unique<MemoryFile>(FuzzSeedAt(path)), path);
  for (size_t i = 0; archive.ok() && i < (*archive)->members().size(); ++i) {
    const auto member = (*archive)->Read(i, bytes_max);
    if (member.ok()) members.push_back(ContentOf(**member));
  }
  return members;
}

}  // namespace cohort
