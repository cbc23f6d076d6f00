#pragma once

// A data shard of a checkpoint in memory: its bytes in the order in which the file has them.
// Nothing is copied; each tensor is leased and stays as it is while pushes go on. The shard is read
// in chunks, or written to a file.

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

// The bytes of one data shard and their layout. Thread-compatible. Shared by the table that holds
// the shard and by a call that reads it.
class HeldShard {
 public:
  explicit HeldShard(ShardTarget target) : target_(std::move(target)) {}

  const ShardTarget& target() const { return target_; }

  // Adds rows `rows` of the logical tensor `name`. The owners of `bytes` keep them unchanged.
  // Errors: INVALID_ARGUMENT for a bad name or rows outside the tensor.
  absl::Status Add(const std::string& name, const BundleTensor& tensor, RowRange rows,
                   Payload bytes);

  // Returns the descriptions of the saved slices, without checksums.
  const std::vector<proto::SavedSlice>& layout() const { return layout_; }
  uint64_t size() const { return size_; }

  // Returns the shard's bytes from `offset` on, at most `bytes_max`; fewer only at the end of the
  // shard.
  Payload Read(uint64_t offset, uint64_t bytes_max) const;

  // Writes the shard's file and releases each tensor once it is written; the shard is empty
  // afterwards. Errors: those of DataShardWriter.
  absl::StatusOr<std::vector<proto::SavedSlice>> Write(FileSystem& files);

 private:
  const ShardTarget target_;
  std::vector<Payload> pieces_;  // the bytes of each slice, in the order of layout_
  std::vector<proto::SavedSlice> layout_;
  uint64_t size_ = 0;
};

}  // namespace cohort
