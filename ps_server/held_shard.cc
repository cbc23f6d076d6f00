#include "ps_server/held_shard.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/shard_layout.h"

namespace cohort {

absl::Status HeldShard::Add(const std::string& name, const Shape& full_shape, RowRange rows,
                            const Tensor& value, std::shared_ptr<const void> lease) {
  ASSIGN_OR_RETURN(proto::SavedSlice saved, DescribeSlice(name, full_shape, rows, value));
  saved.set_shard(target_.shard);
  saved.set_offset(static_cast<int64_t>(size_));
  size_ += value.num_bytes();
  layout_.push_back(std::move(saved));
  pieces_.push_back(std::make_shared<const Piece>(Piece{full_shape, value, std::move(lease)}));
  return absl::OkStatus();
}

Payload HeldShard::Read(uint64_t offset, uint64_t bytes_max) const {
  // The first slice that ends behind the offset.
  const auto first = std::upper_bound(
      layout_.begin(), layout_.end(), offset, [](uint64_t at, const proto::SavedSlice& slice) {
        return at < static_cast<uint64_t>(slice.offset() + slice.size());
      });
  Payload payload;
  for (auto slice = first; slice != layout_.end() && bytes_max > 0; ++slice) {
    const uint64_t skip = offset - static_cast<uint64_t>(slice->offset());
    const uint64_t count = std::min(static_cast<uint64_t>(slice->size()) - skip, bytes_max);
    if (count == 0) continue;
    const auto& piece = pieces_[static_cast<size_t>(slice - layout_.begin())];
    payload.push_back({piece, piece->value.raw() + skip, static_cast<size_t>(count)});
    offset += count;
    bytes_max -= count;
  }
  return payload;
}

absl::StatusOr<std::vector<proto::SavedSlice>> HeldShard::Write(FileSystem& files) {
  auto pieces = std::exchange(pieces_, {});
  const auto layout = std::exchange(layout_, {});
  size_ = 0;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<DataShardWriter> writer,
      DataShardWriter::Create(files, target_.prefix, target_.shard, target_.num_shards));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const proto::SavedSlice& slice = layout[i];
    const std::shared_ptr<const Piece> piece = std::move(pieces[i]);
    RETURN_IF_ERROR(writer->Add(slice.tensor(), piece->full_shape,
                                {slice.row_begin(), slice.row_count()}, piece->value));
  }
  return writer->Finish();
}

}  // namespace cohort
