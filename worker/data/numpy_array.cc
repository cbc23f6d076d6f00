#include "worker/data/numpy_array.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/npy.h"
#include "common/formats/npz.h"
#include "common/formats/zip_archive.h"

namespace cohort {

namespace {

absl::Status WithoutAxes(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is one value; axis 0 of an array must count the examples"));
}

absl::StatusOr<NumpyArray> OpenInArchive(std::unique_ptr<ReadableFile> file,
                                         const std::string& path, const std::string& key) {
  ASSIGN_OR_RETURN(std::unique_ptr<ZipArchive> zip, ZipArchive::Open(std::move(file), path));
  ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> arrays, OpenNpz(std::move(zip), path));
  std::vector<std::string> names;
  for (size_t i = 0; i < arrays->tensors().size(); ++i) {
    names.push_back(Excerpt(arrays->tensors()[i].name));
    if (arrays->tensors()[i].name != key) continue;
    if (arrays->tensors()[i].shape.rank() == 0) return WithoutAxes(absl::StrCat(path, ": ", key));
    NumpyArray array;
    ASSIGN_OR_RETURN(array.values, arrays->Read(i));
    return array;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": ", key.empty() ? "needs keys, the names of its arrays" : "has no array '",
      Excerpt(key), key.empty() ? "" : "'", "; it has ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<NumpyArray> OpenNumpyArray(FileSystem& files, const std::string& path,
                                          const std::string& key) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path));
  if (LooksLikeZip(*file)) return OpenInArchive(std::move(file), path, key);
  if (!key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no .npz file, which keys are for; leave keys out"));
  }
  ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(*file, path));
  if (header.shape.rank() == 0) return WithoutAxes(path);
  NumpyArray array;
  const bool is_large = file->size() - header.data_begin > kArrayInMemoryMax;
  // Rows of an array in Fortran's order do not lie together.
  if (is_large && header.supported && !header.fortran_order) {
    ASSIGN_OR_RETURN(array.rows, RowFile::Make(std::move(file), path,
                                               {header.type, header.shape, header.data_begin}));
    return array;
  }
  ASSIGN_OR_RETURN(array.values, ReadNpy(*file, header, path));
  return array;
}

}  // namespace cohort
