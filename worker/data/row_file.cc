#include "worker/data/row_file.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

namespace cohort {

absl::StatusOr<std::shared_ptr<const RowFile>> RowFile::Make(std::unique_ptr<ReadableFile> file,
                                                             std::string path, StoredArray array) {
  const absl::StatusOr<uint64_t> bytes = StoredBytes(array.shape.dims(), array.type.bytes);
  if (!bytes.ok()) return Annotate(bytes.status(), path);
  if (array.begin > file->size() || *bytes > file->size() - array.begin) {
    return MalformedFile(
        path, absl::StrCat("its array ", array.shape.ToString(), " needs ", *bytes,
                           " bytes from byte ", array.begin, " on, and it has ", file->size()));
  }
  if (DTypeOfStored(array.type) == DType::kUndefined) {
    return absl::UnimplementedError(absl::StrCat(path, ": its type is not read"));
  }
  const auto rows = static_cast<uint64_t>(array.shape.dim(0));
  const uint64_t row_bytes = rows == 0 ? 0 : *bytes / rows;
  return std::shared_ptr<const RowFile>(
      new RowFile(std::move(file), std::move(path), std::move(array), row_bytes));
}

RowFile::RowFile(std::unique_ptr<ReadableFile> file, std::string path, StoredArray array,
                 uint64_t row_bytes)
    : file_(std::move(file)),
      path_(std::move(path)),
      array_(std::move(array)),
      row_bytes_(row_bytes) {}

Shape RowFile::row_shape() const { return Shape(array_.shape.dims().subspan(1)); }

absl::StatusOr<Tensor> RowFile::Read(absl::Span<const int64_t> rows) const {
  std::vector<char> bytes(rows.size() * row_bytes_);
  for (size_t i = 0; i < rows.size();) {
    // Rows that follow one another in the file are read at once.
    size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    RETURN_IF_ERROR(
        file_->Read(array_.begin + static_cast<uint64_t>(rows[i]) * row_bytes_,
                    absl::MakeSpan(bytes).subspan(i * row_bytes_, (end - i) * row_bytes_)));
    i = end;
  }
  std::vector<int64_t> dims(array_.shape.dims().begin(), array_.shape.dims().end());
  dims[0] = static_cast<int64_t>(rows.size());
  absl::StatusOr<Tensor> tensor = DecodeElements(bytes, array_.type, Shape(dims));
  if (!tensor.ok()) return Annotate(tensor.status(), path_);
  return tensor;
}

}  // namespace cohort
