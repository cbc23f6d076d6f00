#pragma once

// The download of the shard that one ps holds in memory into a file of the coordinator, in chunks:
//
//   ReadShard, ... --> file complete --> ReleaseShard
//
// The coordinator holds one chunk at a time. Every chunk has a checksum: a damaged chunk is read
// again. The calls under way hold the ShardDownload, which ends by itself.

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

// One download of a shard. Lives on its strand, which also writes the file.
class ShardDownload : public std::enable_shared_from_this<ShardDownload> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<proto::SavedSlice>>)>;
  struct Options {
    TaskLink link;
    proto::WriteShardRequest save;  // identifies the save that the ps holds
    DataShardCopy::Target target;
    std::vector<proto::SavedSlice> layout;  // layout of the shard, as the ps reported it
    absl::Duration call_timeout;
    size_t chunk_bytes;
  };
  // Starts a download. `done` runs on any thread. Errors: PS_LOST; the ps's own; those of
  // DataShardCopy; DATA_LOSS (TRANSIENT) naming the ps if a chunk arrives damaged in
  // kCallAttemptsMax attempts in a row.
  static void Start(World world, Options options, Done done);

 private:
  ShardDownload(World world, Options options, Done done);
  // Calls the ps and runs `then` on the strand with the answer.
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
  // The members below are used on the strand only.
  Done done_;
  std::unique_ptr<DataShardCopy> copy_;
  int damaged_ = 0;  // number of damaged chunks in a row
};

}  // namespace cohort
