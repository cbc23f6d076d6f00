#pragma once

// Finds the four IDX files of MNIST: in <data directory>/mnist, then in the user's cache, then at
// public mirrors, whose files are verified by checksums. Files that exist but cannot be used are an
// error. Only if no files exist, and the job allows it, may the caller use other data.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/wire/world.h"

namespace cohort {

struct MnistFiles {
  std::string train_images, train_labels, test_images, test_labels;  // paths of MNIST's four files
};

struct MnistSearch {
  std::string data_directory;   // value of the environment variable COHORT_DATA_DIR; may be empty
  std::string cache_directory;  // directory for cached files, such as ~/.cache/cohort; may be empty
  bool download = true;
};

// Finds or downloads the four files of MNIST. Errors: NOT_FOUND if there are no files, naming the
// places that were searched and the result of the download; FAILED_PRECONDITION naming the missing
// files if only some exist; the file system's error for a file that cannot be opened
// (PERMISSION_DENIED, RESOURCE_EXHAUSTED).
absl::StatusOr<MnistFiles> FindMnist(World world, Waiter& waiter, const MnistSearch& search);

// Checks, without a download, whether FindMnist may succeed. Errors: those of FindMnist that follow
// from the files of this machine, NOT_FOUND if there is no place for a download.
absl::Status CheckMnist(FileSystem& files, const MnistSearch& search);

// Returns the SHA-256 of a file in hexadecimal digits.
absl::StatusOr<std::string> Sha256OfFile(FileSystem& files, const std::string& path);

}  // namespace cohort
