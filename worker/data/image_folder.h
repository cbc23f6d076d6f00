#pragma once

// Images in directories, a directory for each class, as Keras's image_dataset_from_directory takes
// them: classes are directories in the order of their bytes, images the files below them with an
// ending of JPEG or PNG.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "worker/data/examples.h"

namespace cohort {

// The columns are "image", the bytes of the file, and "label", the number of the class. Immutable;
// thread-safe.
class ImageFolderExamples final : public Examples {
 public:
  // Lists the directory. `class_names` are the classes that are taken, in this order; none: all,
  // but for hidden directories. Errors: INVALID_ARGUMENT for a class that is not there, a directory
  // without classes or without images, and a GIF or BMP file, which Keras would read; those of
  // listing.
  static absl::StatusOr<std::shared_ptr<const ImageFolderExamples>> Open(
      FileSystem& files, const std::string& directory, std::vector<std::string> class_names);

  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  const std::vector<ColumnSpec>& columns() const override { return columns_; }
  // Returns the directory, with a checksum of the names of the images in it.
  const std::vector<proto::DataFile>& files() const override { return described_; }
  absl::StatusOr<ColumnBatch> Read(absl::Span<const int64_t> numbers) const override;
  std::string NameOf(int64_t number) const override;

 private:
  struct Image {
    std::string path;  // below the directory
    int64_t label = 0;
  };

  ImageFolderExamples(FileSystem& files, std::string directory);
  // Adds the images below a directory whose path begins at directory_.
  absl::Status AddClass(const std::string& path, int64_t label, int depth);

  FileSystem& files_;
  const std::string directory_;
  std::vector<Image> images_;
  const std::vector<ColumnSpec> columns_;
  std::vector<proto::DataFile> described_;
};

}  // namespace cohort
