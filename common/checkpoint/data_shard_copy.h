#pragma once

// A copy of another task's data shard, which is written while the shard's bytes arrive from that
// task. The copy's file has the name and the bytes that the other task would have written, and is
// either complete or absent. The transport must deliver the bytes intact, because the checksums of
// the slices are computed from the received bytes.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/base/temporary_file.h"
#include "proto/ps.pb.h"

namespace cohort {

// The writer of a copy of one data shard. Thread-compatible.
class DataShardCopy {
 public:
  struct Target {
    std::string prefix;
    int shard = 0;
    int num_shards = 1;
  };
  // Creates the copy of a data shard that holds `slices`, in order and without gaps. The slices'
  // checksums need not be known yet. Errors: INVALID_ARGUMENT for a wrong shard number, or if the
  // slices leave gaps; ALREADY_EXISTS if the prefix has an index; those of FileSystem::Create.
  static absl::StatusOr<std::unique_ptr<DataShardCopy>> Create(
      FileSystem& files, const Target& target, std::vector<proto::SavedSlice> slices);

  uint64_t size() const { return size_; }
  uint64_t received() const { return received_; }

  // Appends the next bytes of the shard, which the caller may divide between calls at any position.
  // Errors: INVALID_ARGUMENT for bytes beyond the shard's end; those of the file system. After an
  // error the copy must not be used any more.
  absl::Status Append(absl::string_view bytes);

  // Syncs and closes the copy's file and gives it its final name. Returns the slices with their
  // checksums. Errors: FAILED_PRECONDITION if bytes are missing; those of DataShardWriter::Finish.
  absl::StatusOr<std::vector<proto::SavedSlice>> Finish();

 private:
  DataShardCopy(FileSystem& files, Target target, std::vector<proto::SavedSlice> slices,
                std::unique_ptr<TemporaryFile> file);
  // Sets the checksum of each slice whose bytes have all arrived, and makes slice_ the first slice
  // that lacks bytes.
  void EndSlices();

  FileSystem& files_;
  const Target target_;
  const std::string path_;
  const std::unique_ptr<TemporaryFile> file_;
  std::vector<proto::SavedSlice> slices_;
  uint64_t size_ = 0;
  uint64_t received_ = 0;
  size_t slice_ = 0;  // index in slices_ of the slice to which the next byte belongs
  uint32_t crc_ = 0;  // CRC-32C of the bytes of slices_[slice_] that have arrived
};

}  // namespace cohort
