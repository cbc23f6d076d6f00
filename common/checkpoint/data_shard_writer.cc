#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

// A checkpoint is little endian, and tensors are written as they lie in memory.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// Writing in pieces lets the checksum run over bytes that are still in the cache.
constexpr size_t kAppendBytes = 1 << 20;

std::string TemporaryPath(const std::string& path) { return absl::StrCat(path, ".tmp"); }

absl::Status CheckSlice(const Shape& full_shape, RowRange rows, const Tensor& value) {
  if (TensorFlowDType(value.dtype()) == 0) {
    return absl::InvalidArgumentError("the tensor has no value");
  }
  RETURN_IF_ERROR(CheckedBytes(value.dtype(), full_shape.dims()).status());
  const int64_t rows_all = full_shape.rank() == 0 ? 1 : full_shape.dim(0);
  absl::InlinedVector<int64_t, 4> dims(full_shape.dims().begin(), full_shape.dims().end());
  if (!dims.empty()) dims[0] = rows.count;
  const bool whole = rows == RowRange{0, rows_all};
  if (rows.begin < 0 || rows.count < 0 || rows.count > rows_all ||
      rows.begin > rows_all - rows.count || (!whole && rows.count == 0) ||
      value.shape() != Shape(absl::MakeConstSpan(dims))) {
    return absl::InvalidArgumentError(absl::StrCat("a value of shape ", value.shape().ToString(),
                                                   " is not rows ", rows.begin, "+", rows.count,
                                                   " of ", full_shape.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataShardWriter>> DataShardWriter::Create(FileSystem& files,
                                                                         const std::string& prefix,
                                                                         int shard,
                                                                         int num_shards) {
  if (shard < 0 || shard >= num_shards || num_shards > kBundleShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("data shard ", shard, " of ", num_shards, " of checkpoint ", prefix,
                     ": use 0 <= shard < shards <= ", kBundleShardsMax));
  }
  RETURN_IF_ERROR(CheckNotComplete(files, prefix));
  std::string path = DataShardPath(prefix, shard, num_shards);
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.Create(TemporaryPath(path)));
  return std::unique_ptr<DataShardWriter>(
      new DataShardWriter(files, prefix, std::move(path), shard, std::move(file)));
}

DataShardWriter::DataShardWriter(FileSystem& files, std::string prefix, std::string path, int shard,
                                 std::unique_ptr<WritableFile> file)
    : files_(files),
      prefix_(std::move(prefix)),
      path_(std::move(path)),
      shard_(shard),
      file_(std::move(file)) {}

absl::Status DataShardWriter::Add(const std::string& name, const Shape& full_shape, RowRange rows,
                                  const Tensor& value) {
  RETURN_IF_ERROR(CheckTensorName(name));
  RETURN_IF_ERROR(Annotate(CheckSlice(full_shape, rows, value),
                           absl::StrCat("tensor '", name, "' of ", path_)));
  absl::string_view rest(reinterpret_cast<const char*>(value.raw()), value.num_bytes());
  uint32_t crc = 0;
  while (!rest.empty()) {
    const absl::string_view piece = rest.substr(0, kAppendBytes);
    crc = ExtendCrc32c(crc, piece);
    RETURN_IF_ERROR(file_->Append(piece));
    rest.remove_prefix(piece.size());
  }
  proto::SavedSlice saved;
  saved.set_tensor(name);
  saved.set_dtype(static_cast<int32_t>(value.dtype()));
  for (int64_t dim : full_shape.dims()) saved.add_full_dims(dim);
  saved.set_row_begin(rows.begin);
  saved.set_row_count(rows.count);
  saved.set_shard(shard_);
  saved.set_offset(static_cast<int64_t>(offset_));
  saved.set_size(static_cast<int64_t>(value.num_bytes()));
  saved.set_crc32c(crc);
  saved_.push_back(std::move(saved));
  offset_ += value.num_bytes();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<proto::SavedSlice>> DataShardWriter::Finish() {
  RETURN_IF_ERROR(file_->Sync());
  RETURN_IF_ERROR(file_->Close());
  // Asked again: another save of this prefix may have been completed meanwhile.
  RETURN_IF_ERROR(CheckNotComplete(files_, prefix_));
  RETURN_IF_ERROR(files_.Rename(TemporaryPath(path_), path_));
  return std::move(saved_);
}

}  // namespace cohort
