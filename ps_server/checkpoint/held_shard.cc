#include "ps_server/checkpoint/held_shard.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/checkpoint/shard_layout.h"

namespace cohort {

absl::Status HeldShard::Add(const std::string& name, const BundleTensor& tensor, RowRange rows,
                            Payload bytes) {
  ASSIGN_OR_RETURN(proto::SavedSlice saved, DescribeSlice(name, tensor, rows));
  COHORT_CHECK(PayloadBytes(bytes) == static_cast<size_t>(saved.size()), "the rows' bytes");
  saved.set_shard(target_.shard);
  saved.set_offset(static_cast<int64_t>(size_));
  size_ += static_cast<uint64_t>(saved.size());
  layout_.push_back(std::move(saved));
  pieces_.push_back(std::move(bytes));
  return absl::OkStatus();
}

Payload HeldShard::Read(uint64_t offset, uint64_t bytes_max) const {
  // The first saved slice that ends after the offset.
  const auto first = std::upper_bound(
      layout_.begin(), layout_.end(), offset, [](uint64_t at, const proto::SavedSlice& slice) {
        return at < static_cast<uint64_t>(slice.offset() + slice.size());
      });
  Payload payload;
  for (auto slice = first; slice != layout_.end() && bytes_max > 0; ++slice) {
    // Only the first slice is read from its middle; all later slices are read from their begin.
    uint64_t skip = offset - static_cast<uint64_t>(slice->offset());
    for (const ByteSlice& bytes : pieces_[static_cast<size_t>(slice - layout_.begin())]) {
      const uint64_t passed = std::min<uint64_t>(skip, bytes.size);
      const uint64_t count = std::min<uint64_t>(bytes.size - passed, bytes_max);
      skip -= passed;
      if (count == 0) continue;
      payload.push_back({bytes.owner, bytes.data + passed, static_cast<size_t>(count)});
      offset += count;
      bytes_max -= count;
    }
  }
  return payload;
}

absl::StatusOr<std::vector<proto::SavedSlice>> HeldShard::Write(FileSystem& files) {
  // The shard is emptied before the file is written, so it is empty after an error too.
  auto pieces = std::exchange(pieces_, {});
  const auto layout = std::exchange(layout_, {});
  size_ = 0;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<DataShardWriter> writer,
      DataShardWriter::Create(files, target_.prefix, target_.shard, target_.num_shards));
  for (size_t i = 0; i < pieces.size(); ++i) {
    // The lease of each tensor ends once the tensor is written, so pushes soon write in place
    // again.
    const Payload bytes = std::move(pieces[i]);
    std::vector<absl::string_view> views;
    for (const ByteSlice& slice : bytes) {
      views.emplace_back(reinterpret_cast<const char*>(slice.data), slice.size);
    }
    RETURN_IF_ERROR(writer->Add(layout[i], views));
  }
  return writer->Finish();
}

}  // namespace cohort
