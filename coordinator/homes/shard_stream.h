#pragma once

// Streams that carry the bytes of a shard between a home of variables and a file or another home,
// in chunks, one chunk of a stream at a time. Every chunk has a checksum, and a damaged chunk is
// sent again. A stream is owned by its calls under way and ends by itself.
//
//   download   ReadShard, ... --> file complete --> ReleaseShard
//   upload     StageRestore --> WriteStaged, ... --> RestoreShard
//   copy       StageRestore --> FetchStaged, ... --> RestoreShard     to the target
//              --> ReleaseShard                          to the source, in the end
//
// A home changes its slices only in RestoreShard, its last call.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/data_shard_copy.h"
#include "common/wire/world.h"
#include "coordinator/cluster/task_connection.h"
#include "proto/ps.pb.h"

namespace cohort {

// Downloads the shard that one home holds in memory into a file of the coordinator.
struct ShardDownload {
  TaskLink link;
  proto::WriteShardRequest save;  // names the epoch and the save whose shard the home holds
  DataShardCopy::Target target;
  std::vector<proto::SavedSlice> layout;  // layout of the shard, as the home reported it
  absl::Duration call_timeout;
  size_t chunk_bytes = 0;
};
// Starts a download. `done` runs on any thread. Errors: PS_LOST; the home's own; those of
// DataShardCopy; DATA_LOSS (TRANSIENT) naming the home if a chunk arrives damaged in
// kCallAttemptsMax attempts in a row.
void StartShardDownload(
    World world, ShardDownload download,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<proto::SavedSlice>>)> done);

// Uploads the part of a checkpoint that one home needs. The coordinator reads the files, and checks
// their checksums before the last call.
struct ShardUpload {
  TaskLink link;
  std::shared_ptr<const BundleReader> reader;  // shared with the uploads to other homes
  // The RestoreShard request that ends the upload; it contains the number of the staged restore.
  proto::RestoreShardRequest request;
  absl::Duration call_timeout;
  size_t chunk_bytes = 0;
};
// Starts an upload. `done` runs on any thread. Errors: PS_LOST; those that the home answers; those
// of BundleReader.
void StartShardUpload(World world, ShardUpload upload, absl::AnyInvocable<void(absl::Status)> done);

// Copies the content of one home to another home with the same slices. The bytes go directly from
// the source home to the target home; the coordinator only sends the orders.
struct ShardCopy {
  TaskLink source;
  TaskLink target;
  uint64_t save = 0;                      // number of the save that the source holds
  std::vector<proto::SavedSlice> layout;  // layout of the shard of that save
  // The RestoreShard request that ends the copy; it contains the number of the staged restore.
  proto::RestoreShardRequest request;
  absl::Duration call_timeout;
  size_t chunk_bytes = 0;
};
// Starts a copy. `done` runs on any thread. Errors: PS_LOST; those that the homes answer; those of
// PiecesOf.
void StartShardCopy(World world, ShardCopy copy, absl::AnyInvocable<void(absl::Status)> done);

// A range of bytes in a shard.
struct ShardPiece {
  uint64_t offset = 0;
  uint64_t size = 0;
  friend bool operator==(const ShardPiece&, const ShardPiece&) = default;
};
// Returns the byte ranges in a shard of this layout that hold the rows, one row after another.
// Errors: INTERNAL naming the tensor if the shard does not have all of its rows.
absl::StatusOr<std::vector<ShardPiece>> PiecesOf(const std::vector<proto::StagedRows>& rows,
                                                 const std::vector<proto::SavedSlice>& layout);

}  // namespace cohort
