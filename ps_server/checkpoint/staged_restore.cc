#include "ps_server/checkpoint/staged_restore.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/payload_crc.h"

namespace cohort {

StagedRestore::StagedRestore(Plan plan) : plan_(std::move(plan)) {
  for (const WantedRows& wanted : plan_.wanted) {
    rows_.emplace_back(wanted.dtype, wanted.shape());
    size_ += rows_.back().num_bytes();
  }
}

proto::StageRestoreResponse StagedRestore::Describe() const {
  proto::StageRestoreResponse response;
  for (size_t i = 0; i < plan_.wanted.size(); ++i) {
    proto::StagedRows& rows = *response.add_rows();
    rows.set_tensor(plan_.wanted[i].tensor);
    rows.set_row_begin(plan_.wanted[i].rows.begin);
    rows.set_row_count(plan_.wanted[i].rows.count);
    rows.set_size(rows_[i].num_bytes());
  }
  return response;
}

absl::Status StagedRestore::Write(uint64_t offset, uint32_t crc32c, const Payload& payload) {
  const uint64_t bytes = PayloadBytes(payload);
  if (offset > size_ || bytes > size_ - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes ", offset, "+", bytes, " of a restore that needs ", size_));
  }
  if (PayloadCrc32c(payload) != crc32c) {
    return MakeError(absl::StatusCode::kDataLoss,
                     absl::StrCat("bytes ", offset, "+", bytes, " came damaged"), proto::TRANSIENT);
  }
  if (offset + bytes <= received_) return absl::OkStatus();
  if (offset != received_) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("bytes ", offset, "+", bytes, " came, the next one is ", received_),
        proto::STALE);
  }
  PayloadReader reader(payload);
  while (reader.remaining() > 0) {
    Tensor& row = rows_[row_];
    const size_t count = std::min(row.num_bytes() - row_bytes_, reader.remaining());
    if (count == 0) {
      ++row_;
      row_bytes_ = 0;
      continue;
    }
    RETURN_IF_ERROR(reader.Read(absl::MakeSpan(row.mutable_raw() + row_bytes_, count)));
    row_bytes_ += count;
  }
  received_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> StagedRestore::Take(size_t num_shards) {
  if (received_ != size_ || num_shards != plan_.shards.size()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("of the restore of ", plan_.source.prefix, " ", received_, " of ", size_,
                     " bytes have come, for ", plan_.shards.size(), " of ", num_shards, " slices"),
        proto::STALE);
  }
  return std::move(rows_);
}

}  // namespace cohort
