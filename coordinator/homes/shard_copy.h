#pragma once

// The copy of one home's content to another that has the same slices. The bytes go from the one to
// the other; only the orders pass here:
//
//   StageRestore --> FetchStaged, ... --> RestoreShard     to the target, which asks the source
//                --> ReleaseShard                          to the source, in the end
//
// The target changes its slices with the last of its calls alone. Every chunk has its checksum: a
// damaged one is fetched again. Held by the calls under way; ends by itself.

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

// Bytes of a shard.
struct ShardPiece {
  uint64_t offset = 0;
  uint64_t size = 0;
  friend bool operator==(const ShardPiece&, const ShardPiece&) = default;
};
// Returns where the bytes of these rows, one after another, lie in a shard of this layout. Errors:
// INTERNAL naming the tensor of which the shard does not have all rows.
absl::StatusOr<std::vector<ShardPiece>> PiecesOf(const std::vector<proto::StagedRows>& rows,
                                                 const std::vector<proto::SavedSlice>& layout);

// Lives on its strand.
class ShardCopy : public std::enable_shared_from_this<ShardCopy> {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  struct Options {
    TaskLink source;
    TaskLink target;
    uint64_t save = 0;                      // the save that the source holds
    std::vector<proto::SavedSlice> layout;  // layout of that save
    proto::RestoreShardRequest request;     // a staged one
    absl::Duration call_timeout;
    size_t chunk_bytes;
  };
  // Errors: PS_LOST; what the homes answer; those of PiecesOf. `done` runs on any thread.
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
  // Used on the strand alone.
  Done done_;
  std::vector<ShardPiece> pieces_;
  size_t piece_ = 0;      // the piece that is being fetched
  uint64_t fetched_ = 0;  // bytes of that piece that have come
  uint64_t offset_ = 0;   // bytes fetched, in all rows
};

}  // namespace cohort
