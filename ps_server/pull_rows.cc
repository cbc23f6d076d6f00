#include "ps_server/pull_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

absl::Status Bad(const VariableShard& shard, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("PullRequest.rows of ", shard.layout().ToString(), ": ", what));
}

size_t RowBytes(const VariableShard& shard) {
  return shard.layout().row_width() * ElementSize(shard.layout().dtype);
}

absl::Status CheckIds(const VariableShard& shard, absl::Span<const int64_t> ids) {
  for (const int64_t id : ids) {
    if (!shard.layout().Holds(id)) return Bad(shard, shard.layout().NotHeld(id));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<int64_t>>> ReadRowIds(
    const Envelope<proto::PullRequest>& request, absl::Span<VariableShard* const> shards) {
  std::vector<std::vector<int64_t>> ids;
  PayloadReader reader(request.payload);
  size_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const proto::TensorMeta& meta = request.header.rows(static_cast<int>(i)).ids();
    if (meta.dtype() != static_cast<int32_t>(DType::kInt64) || meta.dims_size() != 1) {
      return Bad(*shards[i], "ids must be int64[n]");
    }
    ASSIGN_OR_RETURN(const Tensor tensor, reader.ReadTensor(meta));
    const absl::Span<const int64_t> span = tensor.span<int64_t>();
    RETURN_IF_ERROR(CheckIds(*shards[i], span));
    bytes += span.size() * RowBytes(*shards[i]);
    if (bytes > kTensorBytesMax) {
      return Bad(*shards[i], absl::StrCat("the answer would be more than ", kTensorBytesMax,
                                          " bytes; use smaller batches"));
    }
    ids.emplace_back(span.begin(), span.end());
  }
  if (reader.remaining() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("PullRequest has ", reader.remaining(), " bytes behind its ids"));
  }
  return ids;
}

size_t AnswerRows(absl::Span<const std::vector<int64_t>> ids,
                  absl::Span<VariableShard* const> shards,
                  Envelope<proto::PullResponse>& response) {
  size_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) bytes += ids[i].size() * RowBytes(*shards[i]);
  const std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes);
  std::byte* out = buffer->data();
  for (size_t i = 0; i < shards.size(); ++i) {
    const size_t size = ids[i].size() * RowBytes(*shards[i]);
    response.header.add_versions(shards[i]->ReadRows(ids[i], {out, size}));
    out += size;
    proto::TensorMeta& meta = *response.header.add_tensors();
    meta.set_dtype(static_cast<int32_t>(shards[i]->layout().dtype));
    const absl::Span<const int64_t> dims = shards[i]->shape().dims();
    meta.mutable_dims()->Add(dims.begin(), dims.end());
    if (!dims.empty()) meta.set_dims(0, static_cast<int64_t>(ids[i].size()));
  }
  if (bytes > 0) response.payload.push_back(ByteSlice{buffer, buffer->data(), bytes});
  return bytes;
}

}  // namespace cohort
