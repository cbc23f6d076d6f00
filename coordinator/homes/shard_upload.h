#pragma once

// The part of a checkpoint that one ps needs, read here and sent in chunks:
//
//   StageRestore --> WriteStaged, ... --> RestoreShard
//
// The ps changes its slices with the last call alone. Checksums of files are compared before it.
// One chunk is here at a time.
// Held by the calls under way; ends by itself.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/strand.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/row_stream.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "coordinator/cluster/task_connection.h"
#include "proto/ps.pb.h"

namespace cohort {

// Lives on its strand, which also reads the files.
class ShardUpload : public std::enable_shared_from_this<ShardUpload> {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  struct Options {
    TaskLink link;
    std::shared_ptr<const BundleReader> reader;  // shared with the uploads to other ps
    proto::RestoreShardRequest request;          // a staged one
    absl::Duration call_timeout;
    size_t chunk_bytes;
  };
  // Errors: PS_LOST; what the ps answers; those of BundleReader. `done` runs on any thread.
  static void Start(World world, Options options, Done done);

 private:
  ShardUpload(World world, Options options, Done done);
  template <typename Response, typename Request, typename Then>
  void Call(const char* method, Envelope<Request> request, Then then);
  proto::StageRestoreRequest StageRequest() const;
  void SendNext();
  // Returns the next bytes of the rows, a chunk if as many are left. Empty after the last row.
  absl::StatusOr<Payload> NextChunk();
  // Errors: those of BundleReader; INTERNAL when the ps asks for another size.
  absl::Status OpenRow();
  void Restore();

  const Options options_;
  Strand strand_;
  // Used on the strand alone.
  Done done_;
  std::vector<proto::StagedRows> rows_;
  size_t row_ = 0;                     // the row that is being sent
  std::unique_ptr<RowStream> stream_;  // bytes of that row; null before it was opened
  uint64_t offset_ = 0;                // bytes sent, in all rows
  uint64_t size_ = 0;                  // bytes of all rows
};

}  // namespace cohort
