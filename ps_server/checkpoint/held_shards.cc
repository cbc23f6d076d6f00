#include "ps_server/checkpoint/held_shards.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/invariants.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

absl::Status StaleSaveError(uint64_t save, absl::string_view why) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("the shard of save ", save, " is not held: ", why), proto::STALE);
}

// Returns the error for a save whose shard is not held any more, or perhaps was never held.
absl::Status LostSaveError(uint64_t save) {
  return StaleSaveError(save,
                        absl::StrCat("it was written or released, a later one took its place, or "
                                     "nobody asked for it in ",
                                     absl::FormatDuration(kIdleMax)));
}

}  // namespace

absl::Status HeldShard::Add(const std::string& name, const BundleTensor& tensor, RowRange rows,
                            Payload bytes) {
  ASSIGN_OR_RETURN(proto::SavedSlice saved, DescribeSlice(name, tensor, rows));
  COHORT_CHECK(PayloadBytes(bytes) == static_cast<size_t>(saved.size()),
               "there are as many bytes as the rows have");
  saved.set_shard(target_.shard);
  saved.set_offset(static_cast<int64_t>(size_));
  size_ += static_cast<uint64_t>(saved.size());
  layout_.push_back(std::move(saved));
  pieces_.push_back(std::move(bytes));
  return absl::OkStatus();
}

Payload HeldShard::Read(uint64_t offset, uint64_t bytes_max) const {
  // `first` becomes the first saved slice of the shard that ends after `offset`.
  const auto first = std::upper_bound(
      layout_.begin(), layout_.end(), offset, [](uint64_t at, const proto::SavedSlice& slice) {
        return at < static_cast<uint64_t>(slice.offset() + slice.size());
      });
  Payload payload;
  for (auto slice = first; slice != layout_.end() && bytes_max > 0; ++slice) {
    // In the first slice, reading may begin in the middle; later slices are read from their start.
    uint64_t skip = offset - static_cast<uint64_t>(slice->offset());
    for (const ByteSlice& bytes : pieces_[static_cast<size_t>(slice - layout_.begin())]) {
      const uint64_t passed = std::min<uint64_t>(skip, bytes.size);
      const uint64_t count = std::min<uint64_t>(bytes.size - passed, bytes_max);
      skip -= passed;
      if (count == 0) continue;
      payload.push_back({bytes.owner, bytes.data + passed, static_cast<size_t>(count)});
      offset += count;
      bytes_max -= count;
    }
  }
  return payload;
}

absl::StatusOr<std::vector<proto::SavedSlice>> HeldShard::Write(FileSystem& files) {
  // The shard's content is moved out first, so that the shard is empty even if writing the file
  // fails.
  auto pieces = std::exchange(pieces_, {});
  const auto layout = std::exchange(layout_, {});
  size_ = 0;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<DataShardWriter> writer,
      DataShardWriter::Create(files, target_.prefix, target_.shard, target_.num_shards));
  for (size_t i = 0; i < pieces.size(); ++i) {
    // The lease of a tensor ends as soon as the tensor is written to the file. From then on pushes
    // can change the slice in place instead of writing a copy.
    const Payload bytes = std::move(pieces[i]);
    std::vector<absl::string_view> views;
    for (const ByteSlice& slice : bytes) {
      views.emplace_back(reinterpret_cast<const char*>(slice.data), slice.size);
    }
    RETURN_IF_ERROR(writer->Add(layout[i], views));
  }
  return writer->Finish();
}

void HeldShards::EnterEpoch(uint64_t epoch) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  EnterLocked(epoch);
}

void HeldShards::EnterLocked(uint64_t epoch) {
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  held_.clear();
  ended_.clear();
  last_of_prefix_.clear();
  written_.clear();
}

std::optional<uint64_t> HeldShards::LastOfLocked(const std::string& prefix) const {
  std::optional<uint64_t> last;
  const auto remembered = last_of_prefix_.find(prefix);
  if (remembered != last_of_prefix_.end()) last = remembered->second;
  // A shard may still be held when its prefix is no longer remembered in last_of_prefix_.
  for (const auto& [save, held] : held_) {
    if (held.shard->target().prefix == prefix) last = std::max(last.value_or(0), save);
  }
  return last;
}

absl::StatusOr<std::shared_ptr<const HeldShard>> HeldShards::FindOrRefuse(
    SaveId id, const std::string& prefix) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  return FindOrRefuseLocked(id, prefix);
}

absl::StatusOr<std::shared_ptr<const HeldShard>> HeldShards::FindOrRefuseLocked(
    SaveId id, const std::string& prefix) {
  if (id.epoch < epoch_) return StaleSaveError(id.save, "its epoch has ended");
  EnterLocked(id.epoch);
  if (const auto found = held_.find(id.save); found != held_.end()) return found->second.shard;
  const bool forgotten = ended_.size() == kEndedShardsRemembered && id.save < *ended_.begin();
  if (forgotten || ended_.count(id.save) > 0) return LostSaveError(id.save);
  const std::optional<uint64_t> last = LastOfLocked(prefix);
  if (last.has_value() && id.save < *last) {
    return StaleSaveError(id.save, absl::StrCat("save ", *last, " of ", prefix, " is later"));
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const HeldShard>> HeldShards::Hold(SaveId id,
                                                                  std::shared_ptr<HeldShard> shard,
                                                                  absl::Time now) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  const std::string& prefix = shard->target().prefix;
  ASSIGN_OR_RETURN(std::shared_ptr<const HeldShard> first, FindOrRefuseLocked(id, prefix));
  if (first != nullptr) return first;
  if (const std::optional<uint64_t> last = LastOfLocked(prefix)) EndLocked(*last);
  last_of_prefix_[prefix] = id.save;
  if (last_of_prefix_.size() > kSavedPrefixesRemembered) {
    last_of_prefix_.erase(
        std::min_element(last_of_prefix_.begin(), last_of_prefix_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  held_[id.save] = {shard, now};
  if (held_.size() > kHeldShardsMax) EndLocked(held_.begin()->first);
  return shard;
}

void HeldShards::EndLocked(uint64_t save) {
  held_.erase(save);
  ended_.insert(save);
  // The lowest number in ended_ may be forgotten, because FindOrRefuse treats all saves below the
  // lowest remembered number as ended.
  if (ended_.size() > kEndedShardsRemembered) ended_.erase(ended_.begin());
}

absl::StatusOr<HeldShards::Held*> HeldShards::FindLocked(SaveId id) {
  EnterLocked(id.epoch);
  const auto found = held_.find(id.save);
  // EnterLocked has raised epoch_ to at least id.epoch, so if the two differ, id.epoch is an older
  // epoch.
  if (id.epoch != epoch_ || found == held_.end()) return LostSaveError(id.save);
  return &found->second;
}

absl::StatusOr<std::shared_ptr<const HeldShard>> HeldShards::Find(SaveId id, absl::Time now) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  ASSIGN_OR_RETURN(Held * held, FindLocked(id));
  held->used = now;
  return held->shard;
}

absl::StatusOr<std::shared_ptr<HeldShard>> HeldShards::TakeToWrite(SaveId id) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  ASSIGN_OR_RETURN(Held * held, FindLocked(id));
  // The save is marked as ended before its file is written, so that a repeated call does not write
  // the file again.
  const std::shared_ptr<HeldShard> shard = std::move(held->shard);
  EndLocked(id.save);
  return shard;
}

void HeldShards::SetWritten(SaveId id, const proto::WriteShardResponse& answer) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  if (id.epoch != epoch_) return;
  written_[id.save] = answer;
  if (written_.size() > kWritesRemembered) written_.erase(written_.begin());
}

std::optional<proto::WriteShardResponse> HeldShards::FindWritten(SaveId id) const {
  MutexLock lock(mutex_);
  const auto found = written_.find(id.save);
  if (id.epoch != epoch_ || found == written_.end()) return std::nullopt;
  return found->second;
}

void HeldShards::Release(SaveId id) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  EnterLocked(id.epoch);
  // The save is marked as ended even if its shard is not held yet, so that a late HoldShard call
  // for this save is refused.
  if (id.epoch == epoch_) EndLocked(id.save);
}

absl::Time HeldShards::DropIdle(absl::Time now) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  std::vector<uint64_t> idle;
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [save, held] : held_) {
    if (held.used + kIdleMax <= now) {
      idle.push_back(save);
    } else {
      next = std::min(next, held.used + kIdleMax);
    }
  }
  // Idle shards are dropped after the loop, because EndLocked erases from held_, over which the
  // loop iterates.
  for (const uint64_t save : idle) EndLocked(save);
  return next;
}

size_t HeldShards::held() const {
  MutexLock lock(mutex_);
  return held_.size();
}

void HeldShards::CheckInvariants() const {
  COHORT_CHECK(held_.size() <= kHeldShardsMax, "at most kHeldShardsMax shards are held");
  COHORT_CHECK(ended_.size() <= kEndedShardsRemembered,
               "at most kEndedShardsRemembered ended shards are remembered");
  std::set<std::string> prefixes;
  for (const auto& [save, held] : held_) {
    COHORT_CHECK(held.shard != nullptr, "a shard that is held is there");
    COHORT_CHECK(ended_.count(save) == 0, "a shard that has ended is not held");
    COHORT_CHECK(prefixes.insert(held.shard->target().prefix).second,
                 "at most one shard of a checkpoint prefix is held");
  }
}

}  // namespace cohort
