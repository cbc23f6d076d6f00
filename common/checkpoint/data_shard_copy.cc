#include "common/checkpoint/data_shard_copy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

// Checks the shard's number, and that the slices lie in this shard without gaps. WriteIndex later
// checks the types and rows of the slices.
absl::Status CheckLayout(const DataShardCopy::Target& target,
                         absl::Span<const proto::SavedSlice> slices) {
  if (target.shard < 0 || target.shard >= target.num_shards ||
      target.num_shards > kBundleShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("data shard ", target.shard, " of ", target.num_shards));
  }
  // Each slice must begin where the slice before it ends, and the sum of the sizes must not
  // overflow.
  int64_t offset = 0;
  for (const proto::SavedSlice& slice : slices) {
    if (slice.shard() != target.shard || slice.offset() != offset || slice.size() < 0 ||
        slice.size() > (int64_t{1} << 62) - offset) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slice of '", slice.tensor(), "' is said to lie in shard ", slice.shard(), " at ",
          slice.offset(), "+", slice.size(), ", expected shard ", target.shard, " at ", offset));
    }
    offset += slice.size();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataShardCopy>> DataShardCopy::Create(
    FileSystem& files, const Target& target, std::vector<proto::SavedSlice> slices) {
  RETURN_IF_ERROR(Annotate(CheckLayout(target, slices),
                           absl::StrCat("data shard of checkpoint ", target.prefix)));
  RETURN_IF_ERROR(CheckNotComplete(files, target.prefix));
  ASSIGN_OR_RETURN(
      std::unique_ptr<TemporaryFile> file,
      TemporaryFile::Create(files, DataShardPath(target.prefix, target.shard, target.num_shards)));
  std::unique_ptr<DataShardCopy> copy(
      new DataShardCopy(files, target, std::move(slices), std::move(file)));
  // Slices without any bytes at the beginning of the shard are complete before the first byte
  // arrives.
  copy->EndSlices();
  return copy;
}

DataShardCopy::DataShardCopy(FileSystem& files, Target target,
                             std::vector<proto::SavedSlice> slices,
                             std::unique_ptr<TemporaryFile> file)
    : files_(files),
      target_(std::move(target)),
      path_(DataShardPath(target_.prefix, target_.shard, target_.num_shards)),
      file_(std::move(file)),
      slices_(std::move(slices)) {
  for (const proto::SavedSlice& slice : slices_) size_ += static_cast<uint64_t>(slice.size());
}

void DataShardCopy::EndSlices() {
  for (; slice_ < slices_.size(); ++slice_) {
    proto::SavedSlice& slice = slices_[slice_];
    // The shard's bytes arrive in order, so no slice after an incomplete slice can be complete.
    if (received_ < static_cast<uint64_t>(slice.offset() + slice.size())) return;
    slice.set_crc32c(std::exchange(crc_, 0));
  }
}

absl::Status DataShardCopy::Append(absl::string_view bytes) {
  if (bytes.size() > size_ - received_) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", bytes.size(), " bytes came where ",
                                                   size_ - received_, " of ", size_,
                                                   " are missing"));
  }
  RETURN_IF_ERROR(file_->Append(bytes));
  // One call of Append may bring bytes of several slices, each of which has its own checksum.
  while (!bytes.empty()) {
    const proto::SavedSlice& slice = slices_[slice_];
    const uint64_t left = static_cast<uint64_t>(slice.offset() + slice.size()) - received_;
    const absl::string_view piece = bytes.substr(0, std::min<uint64_t>(left, bytes.size()));
    crc_ = ExtendCrc32c(crc_, piece);
    received_ += piece.size();
    bytes.remove_prefix(piece.size());
    EndSlices();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<proto::SavedSlice>> DataShardCopy::Finish() {
  if (received_ != size_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": ", received_, " of ", size_, " bytes have come"));
  }
  RETURN_IF_ERROR(file_->Seal());
  // Create has checked that the prefix has no index. Finish checks this again, because another save
  // of the prefix may have completed since.
  if (absl::Status complete = CheckNotComplete(files_, target_.prefix); !complete.ok()) {
    file_->Discard();
    return complete;
  }
  RETURN_IF_ERROR(file_->Commit());
  return std::move(slices_);
}

}  // namespace cohort
