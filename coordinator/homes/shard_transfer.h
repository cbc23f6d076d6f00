#pragma once

// Moves the shards of a checkpoint between the parameter servers and the coordinator's directory,
// in one of two ways:
//
//   shared   every ps writes and reads the files itself, because it has the same directory
//   stream   the coordinator writes and reads all files; their bytes travel in chunks
//
// A save has two steps. First all ps freeze their slices at the same time. Then the frozen shards
// are written, which may take long while training goes on. Both ways make the same files, and files
// of one way can be restored in the other.
//
// If the job does not name a way, a probe decides once per directory and epoch. The coordinator
// writes a file with a token that only this coordinator knows, and asks every ps whether it sees
// the file. If all of them do, they share the directory: a directory of the same name on another
// disk does not have the file.

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
#include "coordinator/homes/checkpoint_mode.h"
#include "proto/ps.pb.h"

namespace cohort {

// The number of shards that are streamed at the same time. The coordinator holds one chunk of each
// in memory.
inline constexpr size_t kStreamedAtOnce = 4;

// Saves and restores the shards of checkpoints. Every operation may end with these errors:
// UNAVAILABLE (PS_LOST) naming the ps; errors that a ps answers; errors of files. Completions run
// on any thread. Operations under way share its ownership. Thread-safe.
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
    // The prefix of the checkpoint. Its directory must exist when the shards are written.
    std::string prefix;
    std::vector<proto::NamedTensor> extras;  // tensors to be saved in the first shard
  };
  // The frozen shards of one save: each ps holds one until it has written it or is told to release
  // it. A ps also releases its shard when a later save of the same prefix begins, at the end of the
  // epoch, and after two minutes without a call about the shard.
  struct Held {
    uint64_t epoch = 0;
    uint64_t save = 0;
    std::string prefix;
    std::vector<TaskLink> links;
    std::vector<std::vector<proto::SavedSlice>> layouts;  // for each link, the slices in its shard
  };
  void Hold(const SaveOrder& order, absl::AnyInvocable<void(absl::StatusOr<Held>)> done);
  using SaveDone = absl::AnyInvocable<void(absl::StatusOr<std::vector<proto::SavedSlice>>)>;
  // Writes all held shards to files. `done` gets the slices that were written. The caller has to
  // write the index.
  void Write(Held held, SaveDone done);
  // Holds the shards of a checkpoint, and then writes them.
  void Save(const SaveOrder& order, SaveDone done);

  struct RestoreOrder {
    uint64_t epoch = 0;
    std::string prefix;  // prefix of the checkpoint; if empty, the initial values are restored
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
  // Tells `done` whether all ps share the directory of `prefix` with the coordinator. The answer
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
  // The epoch of the latest probes; `shared_` has their results, by directory.
  uint64_t probed_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, bool> shared_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
