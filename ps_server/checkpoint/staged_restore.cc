#include "ps_server/checkpoint/staged_restore.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/message.h"
#include "ps_server/checkpoint/held_shards.h"

namespace cohort {

namespace {

absl::Status NotStaged(uint64_t restore) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("restore ", restore, " is not staged: it has ended, a later one took its ",
                   "place, or nobody asked for it in ", absl::FormatDuration(kIdleMax)),
      proto::STALE);
}

}  // namespace

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
  // The check subtracts, because with an offset from a peer the sum could overflow.
  if (offset > size_ || bytes > size_ - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes ", offset, "+", bytes, " of a restore that needs ", size_));
  }
  if (PayloadCrc32c(payload) != crc32c) {
    return MakeError(absl::StatusCode::kDataLoss,
                     absl::StrCat("bytes ", offset, "+", bytes, " came damaged"), proto::TRANSIENT);
  }
  // A sender repeats a chunk if the answer to its first call was lost; such a chunk changes
  // nothing.
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
    // The current tensor is full (or has no bytes at all), so the next byte belongs to the next
    // tensor.
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

void Staging::EnterEpoch(uint64_t epoch) {
  if (epoch == epoch_) return;
  // A coordinator numbers its restores anew in each epoch.
  *this = Staging();
  epoch_ = epoch;
}

absl::StatusOr<StagedRestore*> Staging::FindOrRefuse(uint64_t restore) {
  if (staged_ != nullptr && restore == last_) return staged_.get();
  // Restores have ascending numbers. A number below `last_` comes from a late call, and restore
  // `last_` itself is no longer staged because it was taken or dropped.
  if (restore <= last_) return NotStaged(restore);
  return nullptr;
}

StagedRestore* Staging::Stage(uint64_t restore, StagedRestore::Plan plan, absl::Time now) {
  // Frees the rows of the former restore before the rows of this restore are allocated.
  staged_ = nullptr;
  staged_ = std::make_unique<StagedRestore>(std::move(plan));
  last_ = restore;
  used_ = now;
  return staged_.get();
}

absl::StatusOr<StagedRestore*> Staging::Find(uint64_t restore, absl::Time now) {
  if (staged_ == nullptr || restore != last_) return NotStaged(restore);
  used_ = now;
  return staged_.get();
}

void Staging::End(uint64_t restore, absl::StatusOr<uint32_t> tensors) {
  ended_ = restore;
  end_ = std::move(tensors);
}

std::optional<absl::StatusOr<uint32_t>> Staging::FindEnded(uint64_t restore) const {
  if (restore == 0 || restore != ended_) return std::nullopt;
  return end_;
}

absl::Time Staging::DropIdle(absl::Time now) {
  if (staged_ != nullptr && used_ + kIdleMax <= now) staged_ = nullptr;
  return staged_ == nullptr ? absl::InfiniteFuture() : used_ + kIdleMax;
}

}  // namespace cohort
