#pragma once

// The copy of one home's content to another home that has the same slices. The bytes go directly
// from the source home to the target home; only the orders come from the coordinator:
//
//   StageRestore --> FetchStaged, ... --> RestoreShard     to the target, which asks the source
//                 --> ReleaseShard                          to the source, in the end
//
// The target changes its slices only in RestoreShard, its last call. Every chunk has a checksum: a
// damaged chunk is fetched again. The calls under way hold the ShardCopy, which ends by itself.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/strand.h"
#include "common/wire/world.h"
#include "coordinator/cluster/task_connection.h"
#include "proto/ps.pb.h"

namespace cohort {

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

// One copy under way from a source home to a target home. Lives on its strand.
class ShardCopy : public std::enable_shared_from_this<ShardCopy> {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  struct Options {
    TaskLink source;
    TaskLink target;
    uint64_t save = 0;                      // number of the save that the source holds
    std::vector<proto::SavedSlice> layout;  // layout of the shard of that save
    // The request that ends the copy; it names a staged restore.
    proto::RestoreShardRequest request;
    absl::Duration call_timeout;
    size_t chunk_bytes;
  };
  // Starts a copy. `done` runs on any thread. Errors: PS_LOST; those that the homes answer; those
  // of PiecesOf.
  static void Start(World world, Options options, Done done);

 private:
  ShardCopy(World world, Options options, Done done);
  template <typename Response, typename Request, typename Then>
  void Call(const TaskLink& link, const char* method, Request request, Then then);
  proto::StageRestoreRequest StageRequest() const;
  void FetchNext();
  void Restore();
  void End(absl::Status status);

  const Options options_;
  Strand strand_;
  // The members below are used on the strand only.
  Done done_;
  std::vector<ShardPiece> pieces_;
  size_t piece_ = 0;      // index of the piece that is being fetched
  uint64_t fetched_ = 0;  // bytes of that piece that the target has fetched
  uint64_t offset_ = 0;   // bytes fetched in all pieces
};

}  // namespace cohort
