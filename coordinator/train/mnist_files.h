#pragma once

// Finds the four IDX files of MNIST: in <data directory>/mnist, then in the user's cache, then from
// public mirrors with their checksums verified. Where none works, the caller trains on synthetic
// digits and says so.

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

// Errors: NOT_FOUND that says where was looked and what the download answered; DATA_LOSS for a
// downloaded file with a wrong checksum.
absl::StatusOr<MnistFiles> FindMnist(World world, Waiter& waiter, const MnistSearch& search);

// SHA-256 of a file in hexadecimal digits.
absl::StatusOr<std::string> Sha256OfFile(FileSystem& files, const std::string& path);

}  // namespace cohort
