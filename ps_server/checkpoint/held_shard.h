#pragma once

// A data shard in memory: its bytes under the layout that the file has. Nothing is copied; each
// tensor is leased, and stays as it is while pushes go on. It is read in chunks, or written.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/checkpoint/bundle.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"
#include "common/wire/message.h"
#include "proto/ps.pb.h"

namespace cohort {

struct ShardTarget {
  std::string prefix;
  int shard = 0;
  int num_shards = 1;
};

// Thread-compatible. Shared by the table that holds it and by a call that reads it.
class HeldShard {
 public:
  explicit HeldShard(ShardTarget target) : target_(std::move(target)) {}

  const ShardTarget& target() const { return target_; }

  // Adds rows `rows` of the logical tensor `name`; the owners of `bytes` keep them unchanged.
  // Errors: INVALID_ARGUMENT.
  absl::Status Add(const std::string& name, const BundleTensor& tensor, RowRange rows,
                   Payload bytes);

  // Returns the saved slices, without checksums.
  const std::vector<proto::SavedSlice>& layout() const { return layout_; }
  uint64_t size() const { return size_; }

  // Returns at most `bytes_max` bytes from `offset` on; fewer only at the end.
  Payload Read(uint64_t offset, uint64_t bytes_max) const;

  // Writes the file, and gives up each tensor when it is written: then the shard is empty. Errors:
  // those of DataShardWriter.
  absl::StatusOr<std::vector<proto::SavedSlice>> Write(FileSystem& files);

 private:
  const ShardTarget target_;
  std::vector<Payload> pieces_;  // in the order of the layout
  std::vector<proto::SavedSlice> layout_;
  uint64_t size_ = 0;
};

}  // namespace cohort
