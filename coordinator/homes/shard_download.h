#pragma once

// The shard that one ps holds, read from its memory in chunks and written here:
//
//   ReadShard, ... --> file complete --> ReleaseShard
//
// One chunk is here at a time, and every chunk has its checksum: a damaged one is read again.
// Held by the calls under way; ends by itself.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/strand.h"
#include "common/checkpoint/data_shard_copy.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "coordinator/cluster/task_connection.h"
#include "proto/ps.pb.h"

namespace cohort {

// Lives on its strand, which also writes the file.
class ShardDownload : public std::enable_shared_from_this<ShardDownload> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<proto::SavedSlice>>)>;
  struct Options {
    TaskLink link;
    proto::WriteShardRequest save;  // the save that the ps holds
    DataShardCopy::Target target;
    std::vector<proto::SavedSlice> layout;  // as the ps reported it
    absl::Duration call_timeout;
    size_t chunk_bytes;
  };
  // Starts a download. `done` runs on any thread. Errors: PS_LOST; the ps's own; those of
  // DataShardCopy; DATA_LOSS (TRANSIENT) naming the ps whose chunk keeps coming damaged.
  static void Start(World world, Options options, Done done);

 private:
  ShardDownload(World world, Options options, Done done);
  // Runs `then` on the strand with the answer.
  template <typename Response, typename Request, typename Then>
  void Call(const char* method, Request header, Then then);
  void ReadNext();
  void OnChunk(const Envelope<proto::ReadShardResponse>& chunk);
  absl::Status Append(const Payload& chunk);
  absl::Status Damaged() const;
  void End(absl::StatusOr<std::vector<proto::SavedSlice>> result);

  const World world_;
  const Options options_;
  Strand strand_;
  // Used on the strand alone.
  Done done_;
  std::unique_ptr<DataShardCopy> copy_;
  int damaged_ = 0;  // damaged chunks in a row
};

}  // namespace cohort
