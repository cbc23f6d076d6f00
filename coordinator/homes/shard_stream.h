#pragma once

// Streams that carry the bytes of a checkpoint shard in chunks: from a home of variables to a file
// (download), from files to a home (upload), or from one home to another (copy). In each stream,
// one chunk travels at a time. Every chunk has a checksum, and a damaged chunk is sent again. The
// calls of a stream, which the coordinator makes one after another:
//
//   download   ReadShard, ... --> file complete --> ReleaseShard
//   upload     StageRestore --> WriteStaged, ... --> RestoreShard
//   copy       StageRestore --> FetchStaged, ... --> RestoreShard     to the target
//              --> ReleaseShard                          to the source, in the end
//
// A home changes its slices only in the last call, RestoreShard. A stream is kept alive by its call
// under way.

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

// A download: a file of the coordinator gets the shard that one home holds in memory.
struct ShardDownload {
  TaskLink link;
  // The request that names the epoch and the save for which the home holds the shard.
  proto::WriteShardRequest save;
  DataShardCopy::Target target;
  std::vector<proto::SavedSlice> layout;  // layout of the shard, as the home has reported it
  absl::Duration call_timeout;
  size_t chunk_bytes = 0;
};
// Starts a download. `done` gets the slices in the file, on any thread. Errors: PS_LOST; errors
// that the home answers; those of DataShardCopy; DATA_LOSS (TRANSIENT) naming the home, if a chunk
// arrives damaged kCallAttemptsMax times in a row.
void StartShardDownload(
    World world, ShardDownload download,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<proto::SavedSlice>>)> done);

// An upload: one home gets the part of a checkpoint that it needs. The coordinator reads the files.
// It has checked their checksums before it sends the last call.
struct ShardUpload {
  TaskLink link;
  // The reader of the checkpoint, shared with uploads to other homes.
  std::shared_ptr<const BundleReader> reader;
  // The RestoreShard request that ends the upload. It contains the number of the staged restore.
  proto::RestoreShardRequest request;
  absl::Duration call_timeout;
  size_t chunk_bytes = 0;
};
// Starts an upload. `done` runs on any thread. Errors: PS_LOST; errors that the home answers; those
// of BundleReader.
void StartShardUpload(World world, ShardUpload upload, absl::AnyInvocable<void(absl::Status)> done);

// A copy: one home, the target, gets the content of another home with the same slices, the source.
// The bytes travel directly from the source to the target; the coordinator only makes the
// calls.
struct ShardCopy {
  TaskLink source;
  TaskLink target;
  uint64_t save = 0;                      // number of the save for which the source holds its shard
  std::vector<proto::SavedSlice> layout;  // layout of the shard that the source holds
  // The RestoreShard request that ends the copy. It contains the number of the staged restore.
  proto::RestoreShardRequest request;
  absl::Duration call_timeout;
  size_t chunk_bytes = 0;
};
// Starts a copy. `done` runs on any thread. Errors: PS_LOST; errors that the homes answer; those of
// PiecesOf.
void StartShardCopy(World world, ShardCopy copy, absl::AnyInvocable<void(absl::Status)> done);

// A range of bytes in a shard, from `offset` on.
struct ShardPiece {
  uint64_t offset = 0;
  uint64_t size = 0;
  friend bool operator==(const ShardPiece&, const ShardPiece&) = default;
};
// Returns the byte ranges of a shard that hold the wanted rows, in the order of `rows`. `layout` is
// the layout of the shard. Errors: INTERNAL naming the tensor, if the shard does not hold all of
// the rows or if the numbers are impossible.
absl::StatusOr<std::vector<ShardPiece>> PiecesOf(const std::vector<proto::StagedRows>& rows,
                                                 const std::vector<proto::SavedSlice>& layout);

}  // namespace cohort
