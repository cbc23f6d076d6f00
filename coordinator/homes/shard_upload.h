#pragma once

// The upload of the part of a checkpoint that one ps needs. The coordinator reads the files and
// sends the bytes in chunks:
//
//   StageRestore --> WriteStaged, ... --> RestoreShard
//
// The ps changes its slices only in RestoreShard, the last call. The checksums of the files are
// compared before that call. The coordinator holds one chunk at a time. The calls under way hold
// the ShardUpload, which ends by itself.

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

// One upload to one ps. Lives on its strand, which also reads the files.
class ShardUpload : public std::enable_shared_from_this<ShardUpload> {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  struct Options {
    TaskLink link;
    std::shared_ptr<const BundleReader> reader;  // shared with the uploads to other ps
    // The request that ends the upload; it names a staged restore.
    proto::RestoreShardRequest request;
    absl::Duration call_timeout;
    size_t chunk_bytes;
  };
  // Starts an upload. `done` runs on any thread. Errors: PS_LOST; those that the ps answers; those
  // of BundleReader.
  static void Start(World world, Options options, Done done);

 private:
  ShardUpload(World world, Options options, Done done);
  template <typename Response, typename Request, typename Then>
  void Call(const char* method, Envelope<Request> request, Then then);
  proto::StageRestoreRequest StageRequest() const;
  void SendNext();
  // Returns the next bytes of the wanted rows: a full chunk, or fewer bytes at the end. Returns an
  // empty payload after the last row.
  absl::StatusOr<Payload> NextChunk();
  // Opens the stream of the next wanted rows. Errors: those of BundleReader; INTERNAL when the ps
  // wants another number of bytes than the checkpoint has.
  absl::Status OpenRow();
  void Restore();

  const Options options_;
  Strand strand_;
  // The members below are used on the strand only.
  Done done_;
  std::vector<proto::StagedRows> rows_;
  size_t row_ = 0;                     // index of the rows_ entry that is being sent
  std::unique_ptr<RowStream> stream_;  // unread bytes of that entry; null before it is opened
  uint64_t offset_ = 0;                // bytes of all entries that were sent
  uint64_t size_ = 0;                  // bytes of all entries
};

}  // namespace cohort
