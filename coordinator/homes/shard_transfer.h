#pragma once

// Brings the shards of a checkpoint from the parameter servers into the coordinator's directory and
// back, in one of two ways:
//
//   shared   every ps writes and reads the files itself: its directory is the coordinator's
//   stream   the coordinator writes and reads all files; their bytes travel in chunks
//
// A save has two steps. First every ps freezes its slices at the same time; then the frozen shards
// are written, which may take long while training goes on. Both ways make the same files, and each
// way can restore the files of the other.
//
// Unless the job names a way, a probe decides once per directory and epoch: the coordinator writes
// a file with a token that only this coordinator knows, and every ps says whether it sees that
// file. A directory of the same name on another disk does not have the file.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/wire/frame_limits.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"
#include "proto/ps.pb.h"

namespace cohort {

enum class CheckpointMode { kAuto, kShared, kStream };

// Returns the mode for the name "auto", "shared" or "stream". Errors: INVALID_ARGUMENT for any
// other name.
absl::StatusOr<CheckpointMode> CheckpointModeFromName(absl::string_view name);

// The number of shards that are streamed at once: the coordinator holds one chunk of each in
// memory.
inline constexpr size_t kStreamedAtOnce = 4;

// Saves and restores the shards of checkpoints. Errors of every operation: UNAVAILABLE (PS_LOST)
// naming the ps; errors that a ps answers; errors of files. Completions run on any thread.
// Thread-safe. Shared: operations under way hold it.
class ShardTransfer : public std::enable_shared_from_this<ShardTransfer> {
 public:
  struct Options {
    CheckpointMode mode = CheckpointMode::kAuto;
    absl::Duration call_timeout = absl::Seconds(60);
    size_t chunk_bytes = kShardChunkBytes;
  };
  static std::shared_ptr<ShardTransfer> Create(World world, Options options,
                                               std::shared_ptr<Cluster> cluster);

  struct SaveOrder {
    uint64_t epoch = 0;
    // Prefix of the checkpoint; its directory must exist when shards are written.
    std::string prefix;
    std::vector<proto::NamedTensor> extras;  // tensors that are saved in the first shard
  };
  // The frozen shards that every ps holds for one checkpoint until it writes or releases them. A ps
  // also releases its shard at a later save of the same prefix, at the end of the epoch, and after
  // two minutes without a call for it.
  struct Held {
    uint64_t epoch = 0;
    uint64_t save = 0;
    std::string prefix;
    std::vector<TaskLink> links;
    std::vector<std::vector<proto::SavedSlice>> layouts;  // slices in each shard, one list per link
  };
  void Hold(const SaveOrder& order, absl::AnyInvocable<void(absl::StatusOr<Held>)> done);
  using SaveDone = absl::AnyInvocable<void(absl::StatusOr<std::vector<proto::SavedSlice>>)>;
  // Writes all held data shards; `done` gets the slices that were written. The caller has to write
  // the index.
  void Write(Held held, SaveDone done);
  // Holds the shards of a checkpoint and then writes them.
  void Save(const SaveOrder& order, SaveDone done);

  struct RestoreOrder {
    uint64_t epoch = 0;
    std::string prefix;  // prefix of the checkpoint; empty: restore the initial values
    bool slots = false;
    bool new_slots = false;
    bool applied = false;
    uint64_t watermark = 0;
  };
  void Restore(RestoreOrder order, absl::AnyInvocable<void(absl::Status)> done);

 private:
  using Links = std::vector<TaskLink>;
  using WhenChosen = absl::AnyInvocable<void(absl::StatusOr<bool> shared)>;

  ShardTransfer(World world, Options options, std::shared_ptr<Cluster> cluster);
  // Tells `done` whether the ps share the directory of `prefix` with the coordinator. The answer
  // comes from the options, from an earlier probe, or from a new probe.
  void Choose(const std::string& prefix, uint64_t epoch, const Links& links, WhenChosen done);
  void Probe(const std::string& directory, uint64_t epoch, const Links& links, WhenChosen done);
  void OnProbed(const std::string& directory, uint64_t epoch, bool shared);
  std::optional<bool> Known(const std::string& directory, uint64_t epoch) const;
  void Release(const Held& held);
  void WriteShared(const Held& held, SaveDone done);
  void WriteStreamed(const Held& held, SaveDone done);
  void RestoreShared(const proto::RestoreShardRequest& request, const Links& links,
                     absl::AnyInvocable<void(absl::Status)> done);
  void RestoreStreamed(const proto::RestoreShardRequest& request, const Links& links,
                       absl::AnyInvocable<void(absl::Status)> done);

  const World world_;
  const Options options_;
  const std::shared_ptr<Cluster> cluster_;  // the cluster, shared with the coordinator
  mutable Mutex mutex_;
  // The results of the probes in the epoch probed_epoch_, by directory.
  uint64_t probed_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, bool> shared_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
