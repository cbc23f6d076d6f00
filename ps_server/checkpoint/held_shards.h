#pragma once

// The checkpoint shards that a home holds in memory for its coordinator, keyed by the number of the
// save (one run of checkpoint writing), and the answers of the last saves. Everything belongs to
// one epoch and is dropped when a higher epoch begins. A shard that no call has used for two
// minutes is dropped too, so a coordinator that has died leaves no memory occupied. The states of a
// save's shard:
//
//   not made yet --Hold--> held --TakeToWrite--> written
//                            `---Release, a later save of its prefix, too many, idle---> ended
//
// A save passes through these states once and never returns to an earlier state. So a late or
// repeated call changes no file, because the shard that the call would write is no longer held.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "common/checkpoint/bundle.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"
#include "common/wire/message.h"
#include "proto/ps.pb.h"

namespace cohort {

struct ShardTarget {
  std::string prefix;
  int shard = 0;
  int num_shards = 1;
};

// One data shard of a checkpoint, held in memory with its bytes in the order of the file. Nothing
// is copied: each tensor is leased, and its leased content does not change while pushes continue.
// The shard can be read in chunks or written to a file. Thread-compatible. The HeldShards table
// shares the ownership with the calls that read the shard.
class HeldShard {
 public:
  explicit HeldShard(ShardTarget target) : target_(std::move(target)) {}

  const ShardTarget& target() const { return target_; }

  // Adds the rows `rows` of the logical tensor `name`. `bytes` is the content of these rows, which
  // must not change while the shard is held. Errors: INVALID_ARGUMENT for a name that a checkpoint
  // does not permit, or for rows outside the tensor.
  absl::Status Add(const std::string& name, const BundleTensor& tensor, RowRange rows,
                   Payload bytes);

  // Returns the description of each saved slice (tensor, rows, offset and size), without its
  // checksum.
  const std::vector<proto::SavedSlice>& layout() const { return layout_; }
  uint64_t size() const { return size_; }

  // Returns the `bytes_max` bytes of the shard from `offset` on, or fewer if the shard ends before
  // that.
  Payload Read(uint64_t offset, uint64_t bytes_max) const;

  // Writes the shard's file, and releases each tensor as soon as it has been written. Afterwards
  // the shard is empty, even if writing has failed. Errors: those of DataShardWriter.
  absl::StatusOr<std::vector<proto::SavedSlice>> Write(FileSystem& files);

 private:
  const ShardTarget target_;
  std::vector<Payload> pieces_;  // the bytes of each saved slice, in the order of layout_
  std::vector<proto::SavedSlice> layout_;
  uint64_t size_ = 0;
};

// The maximum number of shards held at a time: one for a recovery checkpoint, one for a checkpoint
// that the job asks for, and one that another home copies.
inline constexpr size_t kHeldShardsMax = 3;
inline constexpr size_t kEndedShardsRemembered = 16;
inline constexpr size_t kSavedPrefixesRemembered = 16;
inline constexpr size_t kWritesRemembered = 4;
// How long a shard is held if no call uses it. Each use of the shard starts this time anew. The
// coordinator repeats a failed call for a shorter time.
inline constexpr absl::Duration kIdleMax = absl::Minutes(2);

// The table of the shards that a home holds, keyed by the numbers of their saves. Every error is
// FAILED_PRECONDITION (STALE), unless said otherwise. Thread-safe.
class HeldShards {
 public:
  struct SaveId {
    uint64_t epoch = 0;
    uint64_t save = 0;
  };
  // Enters an epoch: drops all shards and remembered answers if `epoch` is higher than the present
  // epoch.
  void EnterEpoch(uint64_t epoch);

  // Returns the shard of the save `id`, or null if the caller must make the shard and pass it to
  // Hold. Errors: if the shard was written or has ended; if the save's number is below all
  // remembered numbers of ended saves, or below the number of another save with the same prefix; if
  // the save's epoch has ended.
  absl::StatusOr<std::shared_ptr<const HeldShard>> FindOrRefuse(SaveId id,
                                                                const std::string& prefix);
  // Holds a shard that was made because FindOrRefuse returned null, and returns it. If a concurrent
  // call for the same save has already stored a shard, that first shard is kept and returned: the
  // coordinator may have got the answer of the first call, and closures that ran after that answer
  // must not be in the save. Errors: those of FindOrRefuse.
  absl::StatusOr<std::shared_ptr<const HeldShard>> Hold(SaveId id, std::shared_ptr<HeldShard> shard,
                                                        absl::Time now);

  // Returns the shard of the save `id` and records `now` as its last use. Errors: if the shard is
  // not held.
  absl::StatusOr<std::shared_ptr<const HeldShard>> Find(SaveId id, absl::Time now);
  // Removes the shard of the save `id` from the table and returns it, so that no other call can
  // find the shard. Errors: if the shard is not held.
  absl::StatusOr<std::shared_ptr<HeldShard>> TakeToWrite(SaveId id);
  void SetWritten(SaveId id, const proto::WriteShardResponse& answer);
  std::optional<proto::WriteShardResponse> FindWritten(SaveId id) const;
  void Release(SaveId id);

  // Drops the shards that no call has used for kIdleMax. Returns the earliest time at which another
  // shard can be dropped, or InfiniteFuture if no shard is held.
  absl::Time DropIdle(absl::Time now);
  size_t held() const;

 private:
  friend class InvariantsAfter<HeldShards>;
  struct Held {
    std::shared_ptr<HeldShard> shard;  // shared with the calls that read this shard
    absl::Time used;
  };
  // Aborts if a held shard is also marked as ended, if two held shards have the same prefix, or if
  // more shards are held or remembered than the maximum.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const HeldShard>> FindOrRefuseLocked(SaveId id,
                                                                      const std::string& prefix)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Held*> FindLocked(SaveId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnterLocked(uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the highest known number of a save of `prefix`, or nullopt if none is known.
  std::optional<uint64_t> LastOfLocked(const std::string& prefix) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(uint64_t save) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Held> held_ ABSL_GUARDED_BY(mutex_);
  // The numbers of the saves that have ended or are being written; only the highest
  // kEndedShardsRemembered numbers are kept.
  std::set<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
  // The highest save number of each checkpoint prefix, for the kSavedPrefixesRemembered latest
  // prefixes.
  std::map<std::string, uint64_t> last_of_prefix_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, proto::WriteShardResponse> written_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
