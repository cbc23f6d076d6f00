#pragma once

// A data shard that another task has laid out, written here as its bytes come. The file is the one
// that the other task would have written: the same name, the same bytes, complete or not there.
// What comes is to be whole: the checksums of slices are computed here.

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

// Thread-compatible.
class DataShardCopy {
 public:
  struct Target {
    std::string prefix;
    int shard = 0;
    int num_shards = 1;
  };
  // Begins a copy of a shard that holds `slices`, without gaps and in order, whose checksums are
  // not known yet. Errors: INVALID_ARGUMENT if the slices have gaps; those of
  // DataShardWriter::Create.
  static absl::StatusOr<std::unique_ptr<DataShardCopy>> Create(
      FileSystem& files, const Target& target, std::vector<proto::SavedSlice> slices);

  uint64_t size() const { return size_; }
  uint64_t received() const { return received_; }

  // Appends the next bytes, which may be cut anywhere. Errors: INVALID_ARGUMENT after the end; the
  // file system's. After an error the copy must not be used any more.
  absl::Status Append(absl::string_view bytes);

  // Syncs, closes and renames. The slices with their checksums. Errors: FAILED_PRECONDITION when
  // bytes are missing; those of DataShardWriter::Finish.
  absl::StatusOr<std::vector<proto::SavedSlice>> Finish();

 private:
  DataShardCopy(FileSystem& files, Target target, std::vector<proto::SavedSlice> slices,
                std::unique_ptr<TemporaryFile> file);
  // Sets the checksums of slices that are whole now.
  void EndSlices();

  FileSystem& files_;
  const Target target_;
  const std::string path_;
  const std::unique_ptr<TemporaryFile> file_;
  std::vector<proto::SavedSlice> slices_;
  uint64_t size_ = 0;
  uint64_t received_ = 0;
  size_t slice_ = 0;  // the one that the next byte belongs to
  uint32_t crc_ = 0;  // CRC of the part of the slice that has come
};

}  // namespace cohort
