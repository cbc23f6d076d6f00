#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"
#include "common/checkpoint/shard_layout.h"

namespace cohort {

namespace {

// A checkpoint is little endian, and the writer writes tensors as they lie in memory.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// The size of the pieces in which bytes are checksummed and written, so that the write finds a
// piece still in the cache.
constexpr size_t kAppendBytes = 1 << 20;

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
  ASSIGN_OR_RETURN(std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  return std::unique_ptr<DataShardWriter>(
      new DataShardWriter(files, prefix, std::move(path), shard, std::move(file)));
}

DataShardWriter::DataShardWriter(FileSystem& files, std::string prefix, std::string path, int shard,
                                 std::unique_ptr<TemporaryFile> file)
    : files_(files),
      prefix_(std::move(prefix)),
      path_(std::move(path)),
      shard_(shard),
      file_(std::move(file)) {}

absl::Status DataShardWriter::Add(const std::string& name, const Shape& full_shape, RowRange rows,
                                  const Tensor& value) {
  absl::StatusOr<proto::SavedSlice> slice = DescribeSlice(name, {value.dtype(), full_shape}, rows);
  if (!slice.ok()) return Annotate(slice.status(), path_);
  // The index will give the slice this shape, so the value must have exactly that shape.
  if (value.shape() != ShapeOfRows(full_shape, rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": tensor '", name, "': a value of shape ", value.shape().ToString(),
                     " is not rows ", rows.begin, "+", rows.count, " of ", full_shape.ToString()));
  }
  const absl::string_view bytes(reinterpret_cast<const char*>(value.raw()), value.num_bytes());
  return Add(*std::move(slice), {bytes});
}

absl::Status DataShardWriter::Add(proto::SavedSlice slice,
                                  absl::Span<const absl::string_view> pieces) {
  uint32_t crc = 0;
  uint64_t size = 0;
  for (absl::string_view rest : pieces) {
    size += rest.size();
    while (!rest.empty()) {
      const absl::string_view piece = rest.substr(0, kAppendBytes);
      crc = ExtendCrc32c(crc, piece);
      RETURN_IF_ERROR(file_->Append(piece));
      rest.remove_prefix(piece.size());
    }
  }
  if (size != static_cast<uint64_t>(slice.size())) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor '", slice.tensor(), "' has ",
                                                   size, " bytes for a slice of ", slice.size()));
  }
  // Only the writer knows the place of the slice in the data shard: the current end of the shard.
  slice.set_shard(shard_);
  slice.set_offset(static_cast<int64_t>(offset_));
  slice.set_crc32c(crc);
  saved_.push_back(std::move(slice));
  offset_ += size;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<proto::SavedSlice>> DataShardWriter::Finish() {
  RETURN_IF_ERROR(file_->Seal());
  // The index is looked for a second time, because another save of this prefix may have completed
  // since the writer was created.
  if (absl::Status complete = CheckNotComplete(files_, prefix_); !complete.ok()) {
    file_->Discard();
    return complete;
  }
  RETURN_IF_ERROR(file_->Commit());
  return std::move(saved_);
}

}  // namespace cohort
