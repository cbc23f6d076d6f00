#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/formats/hdf5/hdf5_file.h"
#include "common/formats/zip_archive.h"
#include "tests/unit/common/formats/formats_support.h"

namespace cohort {

// Returns the names and the bytes of the files of an archive.
inline std::vector<std::pair<std::string, std::string>> FilesOf(const std::string& archive_path) {
  std::vector<std::pair<std::string, std::string>> files;
  auto archive = ZipArchive::Open(InMemory(BytesOf(archive_path)), archive_path);
  EXPECT_TRUE(archive.ok()) << archive.status();
  for (size_t i = 0; archive.ok() && i < (*archive)->members().size(); ++i) {
    auto file = (*archive)->Read(i, uint64_t{1} << 30);
    EXPECT_TRUE(file.ok()) << file.status();
    std::string bytes((*file)->size(), '\0');
    EXPECT_TRUE((*file)->Read(0, absl::MakeSpan(bytes)).ok());
    files.emplace_back((*archive)->members()[i].name, std::move(bytes));
  }
  return files;
}

inline std::string FileOf(const std::string& archive_path, const std::string& name) {
  for (auto& [one, bytes] : FilesOf(archive_path)) {
    if (one == name) return bytes;
  }
  ADD_FAILURE() << archive_path << " has no " << name;
  return "";
}

// Returns the models that Keras saved in the middle of training, each as the name of its pack
// (tests/golden/models/restore_k2.15.zip) and that of its description in there.
inline std::vector<std::pair<const char*, const char*>> RestoredModels() {
  return {{"k2.15", "restore"},       {"k2.15", "legacyadam_restore"},
          {"k2.15", "sgdm_restore"},  {"k2.15", "nomask_restore"},
          {"k3.15", "restore"},       {"k3.15", "sgdm_restore"},
          {"k3.15", "nomask_restore"}};
}

inline absl::StatusOr<std::unique_ptr<Hdf5File>> OpenHdf5(absl::string_view bytes) {
  return Hdf5File::Open(InMemory(bytes), "some/file.h5");
}

// Opens a file and reads everything in it, whatever that gives. A file that can be opened gives
// each of its datasets or an error.
inline void ReadAllOf(absl::string_view bytes) {
  const auto file = OpenHdf5(bytes);
  if (!file.ok()) return;
  for (const Hdf5Object& object : (*file)->objects()) {
    if (object.is_dataset) (void)(*file)->Read(object);
  }
}

}  // namespace cohort
