#include "ps_server/service/pull_rows.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/kernel/half_floats.h"
#include "ps_server/service/half_payload.h"

namespace cohort {

namespace {

absl::Status Bad(const VariableSlice& shard, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("PullRequest.rows of ", shard.layout().ToString(), ": ", what));
}

size_t RowBytes(const VariableSlice& shard) {
  return shard.layout().row_width() * ElementSize(shard.layout().dtype);
}

absl::Status CheckIds(const VariableSlice& shard, absl::Span<const int64_t> ids) {
  for (const int64_t id : ids) {
    if (!shard.layout().Holds(id)) return Bad(shard, shard.layout().WhyOutside(id));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<int64_t>>> ReadRowIds(
    const Envelope<proto::PullRequest>& request, absl::Span<VariableSlice* const> shards) {
  std::vector<std::vector<int64_t>> ids;
  // The ids of all slices lie one after another in the payload.
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
    // The limit is checked after each slice, so the sum of bytes cannot overflow.
    bytes += span.size() * RowBytes(*shards[i]);
    if (bytes > kTensorBytesMax) {
      return Bad(*shards[i], absl::StrCat("the answer would be more than ", kTensorBytesMax,
                                          " bytes; use smaller batches"));
    }
    ids.emplace_back(span.begin(), span.end());
  }
  if (reader.remaining() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("PullRequest has ", reader.remaining(), " bytes after its ids"));
  }
  return ids;
}

// A variable that no optimizer trains (rule assign_add) is never narrowed: steps read it and assign
// it again, as moving statistics. If it were rounded each time, it would stop moving as soon as its
// changes are smaller than its last digit.
DType TravelDType(const SliceLayout& layout, DType asked) {
  const bool narrows = layout.dtype == DType::kFloat32 && IsHalf(asked);
  return narrows && layout.rule.op() != "assign_add" ? asked : layout.dtype;
}

size_t AnswerRows(absl::Span<const std::vector<int64_t>> ids,
                  absl::Span<VariableSlice* const> shards, const RowsRead& read,
                  Envelope<proto::PullResponse>& response) {
  const auto& [round, asked] = read;
  const auto elements = [&](size_t i) { return ids[i].size() * shards[i]->layout().row_width(); };
  size_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    bytes += elements(i) * ElementSize(TravelDType(shards[i]->layout(), asked));
  }
  // All rows go into one buffer, so that the answer has few pieces of memory.
  const std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes);
  std::byte* out = buffer->data();
  std::vector<float> floats;
  for (size_t i = 0; i < shards.size(); ++i) {
    const SliceLayout& layout = shards[i]->layout();
    const DType dtype = TravelDType(layout, asked);
    const size_t size = elements(i) * ElementSize(dtype);
    if (dtype == layout.dtype) {
      response.header.add_versions(shards[i]->ReadRowsFor(round, ids[i], {out, size}));
    } else {
      // Rows are read as float32 under the slice's lock, and narrowed outside it.
      floats.resize(elements(i));
      const ByteSlice wide = {nullptr, reinterpret_cast<std::byte*>(floats.data()),
                              floats.size() * sizeof(float)};
      response.header.add_versions(shards[i]->ReadRowsFor(
          round, ids[i], absl::MakeSpan(reinterpret_cast<std::byte*>(floats.data()), wide.size)));
      const ByteSlice narrow = NarrowPayload({wide}, dtype);
      if (size > 0) std::memcpy(out, narrow.data, size);
    }
    out += size;
    proto::TensorMeta& meta = *response.header.add_tensors();
    meta.set_dtype(static_cast<int32_t>(dtype));
    const absl::Span<const int64_t> dims = shards[i]->shape().dims();
    meta.mutable_dims()->Add(dims.begin(), dims.end());
    if (!dims.empty()) meta.set_dims(0, static_cast<int64_t>(ids[i].size()));
  }
  if (bytes > 0) response.payload.push_back(ByteSlice{buffer, buffer->data(), bytes});
  return bytes;
}

}  // namespace cohort
