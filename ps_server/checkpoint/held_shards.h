#pragma once

// The shards that a home holds for its coordinator, by the number of the save, and the outcomes of
// the last saves. Everything belongs to one epoch and is dropped with the epoch. A shard that no
// call has asked for in two minutes is dropped too, so a coordinator that has died occupies no
// memory.
//
//   not made yet --Hold--> held --TakeToWrite--> written
//                            `---Release, a later save of its prefix, too many, idle---> ended
//
// Each save goes this way once. So a late or repeated call changes no file: the shard that it would
// write is no longer held.

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

// A data shard of a checkpoint in memory: its bytes in the order in which the file has them.
// Nothing is copied; each tensor is leased and stays as it is while pushes go on. The shard is read
// in chunks, or written to a file. Thread-compatible. Shared by the table that holds the shard and
// by a call that reads it.
class HeldShard {
 public:
  explicit HeldShard(ShardTarget target) : target_(std::move(target)) {}

  const ShardTarget& target() const { return target_; }

  // Adds rows `rows` of the logical tensor `name`. The owners of `bytes` keep them unchanged.
  // Errors: INVALID_ARGUMENT for a bad name or rows outside the tensor.
  absl::Status Add(const std::string& name, const BundleTensor& tensor, RowRange rows,
                   Payload bytes);

  // Returns the descriptions of the saved slices, without checksums.
  const std::vector<proto::SavedSlice>& layout() const { return layout_; }
  uint64_t size() const { return size_; }

  // Returns the shard's bytes from `offset` on, at most `bytes_max`; fewer only at the end of the
  // shard.
  Payload Read(uint64_t offset, uint64_t bytes_max) const;

  // Writes the shard's file and releases each tensor once it is written; the shard is empty
  // afterwards. Errors: those of DataShardWriter.
  absl::StatusOr<std::vector<proto::SavedSlice>> Write(FileSystem& files);

 private:
  const ShardTarget target_;
  std::vector<Payload> pieces_;  // the bytes of each slice, in the order of layout_
  std::vector<proto::SavedSlice> layout_;
  uint64_t size_ = 0;
};

// The maximum number of held shards: a recovery checkpoint, a checkpoint that the job asks for, and
// a copy for another home.
inline constexpr size_t kHeldShardsMax = 3;
inline constexpr size_t kEndedShardsRemembered = 16;
inline constexpr size_t kSavedPrefixesRemembered = 16;
inline constexpr size_t kWritesRemembered = 4;
// How long a shard is held after the last call that asked for it. A call of a save is repeated for
// a shorter time.
inline constexpr absl::Duration kIdleMax = absl::Minutes(2);

// The table of held shards by their saves. Every error is FAILED_PRECONDITION (STALE), unless said
// otherwise. Thread-safe.
class HeldShards {
 public:
  struct SaveId {
    uint64_t epoch = 0;
    uint64_t save = 0;
  };
  // Enters an epoch: drops everything if the epoch is higher than the present one.
  void EnterEpoch(uint64_t epoch);

  // Returns the save's shard, or null if the shard is still to be made. Errors: for a shard that
  // was written or has ended, and for a save that is older than the remembered ones or than another
  // save of the prefix.
  absl::StatusOr<std::shared_ptr<const HeldShard>> FindOrRefuse(SaveId id,
                                                                const std::string& prefix);
  // Holds a shard that FindOrRefuse asked for, unless a repeated call of the save was faster:
  // returns the one that is held. A snapshot that a late call took must not take the place of the
  // one that was answered, behind which closures may run. Errors: those of FindOrRefuse.
  absl::StatusOr<std::shared_ptr<const HeldShard>> Hold(SaveId id, std::shared_ptr<HeldShard> shard,
                                                        absl::Time now);

  // Returns the save's shard and notes that it was used. Errors: if the shard is not held.
  absl::StatusOr<std::shared_ptr<const HeldShard>> Find(SaveId id, absl::Time now);
  // Takes the save's shard out of the table, so that no other call can find it. Errors: if the
  // shard is not held.
  absl::StatusOr<std::shared_ptr<HeldShard>> TakeToWrite(SaveId id);
  void SetWritten(SaveId id, const proto::WriteShardResponse& answer);
  std::optional<proto::WriteShardResponse> FindWritten(SaveId id) const;
  void Release(SaveId id);

  // Drops the shards that no call has asked for since kIdleMax. Returns when the next shard will be
  // dropped, or InfiniteFuture without shards.
  absl::Time DropIdle(absl::Time now);
  size_t held() const;

 private:
  friend class InvariantsAfter<HeldShards>;
  struct Held {
    std::shared_ptr<HeldShard> shard;  // shared with a call that reads the shard
    absl::Time used;
  };
  // Aborts unless a number goes its way once, and of a prefix only the latest is held.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const HeldShard>> FindOrRefuseLocked(SaveId id,
                                                                      const std::string& prefix)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Held*> FindLocked(SaveId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnterLocked(uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the number of the latest save of `prefix` that is known.
  std::optional<uint64_t> LastOfLocked(const std::string& prefix) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(uint64_t save) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Held> held_ ABSL_GUARDED_BY(mutex_);
  // The highest numbers of saves whose shards are no longer held.
  std::set<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
  // The highest number of a save for each prefix.
  std::map<std::string, uint64_t> last_of_prefix_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, proto::WriteShardResponse> written_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
