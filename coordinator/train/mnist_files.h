#pragma once

// Finds the four IDX files of MNIST: in <data directory>/mnist, then in the user's cache, then from
// public mirrors with their checksums verified. Files that are there and cannot be used are an
// error: only where there are none may the caller take other data, if the job says so.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/wire/world.h"

namespace cohort {

struct MnistFiles {
  std::string train_images, train_labels, test_images, test_labels;  // paths
};

struct MnistSearch {
  std::string data_directory;   // COHORT_DATA_DIR; may be empty
  std::string cache_directory;  // ~/.cache/cohort; may be empty
  bool download = true;
};

// Errors: NOT_FOUND where there is nothing, which says where was looked and what the download
// answered; FAILED_PRECONDITION naming the files that are missing beside others; that of the file
// system for a file that cannot be opened (PERMISSION_DENIED, RESOURCE_EXHAUSTED).
absl::StatusOr<MnistFiles> FindMnist(World world, Waiter& waiter, const MnistSearch& search);

// Returns the SHA-256 of a file in hexadecimal digits.
absl::StatusOr<std::string> Sha256OfFile(FileSystem& files, const std::string& path);

}  // namespace cohort
