#pragma once

// The shards that a ps holds for its coordinator, by the number of the save, and what became of the
// last ones. All of it belongs to one epoch and goes with it, and what nobody asked for in two
// minutes goes too: a coordinator that has died pins no memory.
//
//   to be made --Hold--> held --TakeToWrite--> written
//                          `----Release, a later save of its prefix, too many, idle----> ended
//
// A number goes this way once. So a call that comes late, or again, changes no file: what it would
// write is not held any more.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "ps_server/checkpoint/held_shard.h"

namespace cohort {

// A recovery checkpoint, one that the job asks for, and a copy for another home.
inline constexpr size_t kHeldShardsMax = 3;
inline constexpr size_t kEndedShardsRemembered = 16;
inline constexpr size_t kSavedPrefixesRemembered = 16;
inline constexpr size_t kWritesRemembered = 4;
// Longer than a call that is repeated may take.
inline constexpr absl::Duration kIdleMax = absl::Minutes(2);

// The shards that a ps holds. Every error is FAILED_PRECONDITION (STALE), unless said otherwise.
// Thread-safe.
class HeldShards {
 public:
  struct SaveId {
    uint64_t epoch = 0;
    uint64_t save = 0;
  };
  // Drops everything if the epoch is higher than the one before.
  void EnterEpoch(uint64_t epoch);

  // Returns the shard under this number, or nothing if it is to be made. Errors: for a shard that
  // is written or has ended, or that is older than the remembered ones, or than another one of its
  // prefix.
  absl::StatusOr<std::shared_ptr<const HeldShard>> FindOrRefuse(SaveId id,
                                                                const std::string& prefix);
  // Holds a shard that FindOrRefuse asked for, unless a repeated call of the save was faster:
  // returns the one that is held. A snapshot that a late call took must not take the place of the
  // one that was answered, behind which closures may run. Errors: those of FindOrRefuse.
  absl::StatusOr<std::shared_ptr<const HeldShard>> Hold(SaveId id, std::shared_ptr<HeldShard> shard,
                                                        absl::Time now);

  // Errors: when it is not held.
  absl::StatusOr<std::shared_ptr<const HeldShard>> Find(SaveId id, absl::Time now);
  // Takes the shard, which nobody else sees from now on. Errors: if it is not held.
  absl::StatusOr<std::shared_ptr<HeldShard>> TakeToWrite(SaveId id);
  void SetWritten(SaveId id, const proto::WriteShardResponse& answer);
  std::optional<proto::WriteShardResponse> FindWritten(SaveId id) const;
  void Release(SaveId id);

  // Drops what was last asked for kIdleMax ago. When the next one will be: InfiniteFuture for none.
  absl::Time DropIdle(absl::Time now);
  size_t held() const;

 private:
  friend class InvariantsAfter<HeldShards>;
  struct Held {
    std::shared_ptr<HeldShard> shard;  // shared with a call that reads it
    absl::Time used;
  };
  // Aborts unless a number goes its way once, and of a prefix only the latest is held.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const HeldShard>> FindOrRefuseLocked(SaveId id,
                                                                      const std::string& prefix)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Held*> FindLocked(SaveId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnterLocked(uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(uint64_t save) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Held> held_ ABSL_GUARDED_BY(mutex_);
  // The highest numbers that are held no longer.
  std::set<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
  // The highest number that was held, by prefix.
  std::map<std::string, uint64_t> last_of_prefix_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, proto::WriteShardResponse> written_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
