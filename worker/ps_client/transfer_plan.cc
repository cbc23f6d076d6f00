#include "worker/ps_client/transfer_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/slice_spec.h"

namespace cohort {

namespace {

absl::Status Bad(const proto::VariableLayout& layout, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("layout of variable '", layout.name(), "': ", what));
}

// Returns the type of the layout's variable. Errors: INVALID_ARGUMENT for an unknown type, and for
// extents below 1 or a size in bytes above 2^62.
absl::StatusOr<VariableType> TypeOf(const proto::VariableLayout& layout) {
  const absl::StatusOr<DType> dtype = DTypeFromNumber(layout.dtype());
  if (!dtype.ok()) return Bad(layout, dtype.status().message());
  uint64_t bytes = ElementSize(*dtype);
  for (const int64_t dim : layout.dims()) {
    if (dim < 1 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes) ||
        bytes > (uint64_t{1} << 62)) {
      return Bad(layout, absl::StrCat("bad extent ", dim));
    }
  }
  return VariableType{
      layout.name(),
      *dtype,
      Shape(absl::MakeConstSpan(layout.dims().data(), static_cast<size_t>(layout.dims_size()))),
      false,
      layout.has_dynamic(),
      layout.replicas()};
}

// Returns the type in which float32 values travel: float32 if `number` is 0, which means that the
// field is not set. Errors: INVALID_ARGUMENT for any other type than float32, float16 and bfloat16.
absl::StatusOr<DType> TravelDType(const char* field, int32_t number) {
  const auto dtype = static_cast<DType>(number);
  if (number == 0 || dtype == DType::kFloat32) return DType::kFloat32;
  if (dtype == DType::kFloat16 || dtype == DType::kBfloat16) return dtype;
  return absl::InvalidArgumentError(
      absl::StrCat("Compression.", field, " is ", number, "; float32, float16 or bfloat16"));
}

// Returns the shape of a slice of `rows` rows of a variable with shape `whole`. A scalar has one
// slice, of its own shape.
Shape SliceShape(const Shape& whole, int64_t rows) {
  if (whole.rank() == 0) return whole;
  std::vector<int64_t> dims(whole.dims().begin(), whole.dims().end());
  dims[0] = rows;
  return Shape(absl::MakeConstSpan(dims));
}

// The calls to each home, by the home's index.
using Calls = std::map<uint32_t, std::vector<PsTransfer>>;

PsTransfer& NewCall(uint32_t ps, std::vector<PsTransfer>& calls) {
  calls.emplace_back().ps = ps;
  return calls.back();
}

// Returns the call to `ps` that takes a whole slice of `bytes` bytes: the last call, or a new one
// if the last call would move more than `bytes_max` bytes.
PsTransfer& CallFor(uint32_t ps, size_t bytes, size_t bytes_max, Calls& calls) {
  std::vector<PsTransfer>& of_home = calls[ps];
  const bool fits =
      !of_home.empty() && (of_home.back().slices.empty() ||
                           (bytes <= bytes_max && of_home.back().bytes <= bytes_max - bytes));
  return fits ? of_home.back() : NewCall(ps, of_home);
}

// Adds each slice of one variable to a call to the slice's home. Errors: INVALID_ARGUMENT if the
// slices do not cover axis 0 exactly once in row order.
absl::Status AddSlices(const proto::VariableLayout& layout, const VariableType& type,
                       size_t variable, size_t call_bytes_max, Calls& calls) {
  const int64_t rows = type.shape.rank() == 0 ? 1 : type.shape.dim(0);
  const size_t row_bytes = type.row_bytes();
  // The slices must follow each other without gaps and end at the last row.
  int64_t next_row = 0;
  for (const proto::SliceHome& slice : layout.slices()) {
    if (slice.row_begin() != next_row || slice.row_count() < 1 ||
        slice.row_count() > rows - next_row) {
      return Bad(layout, absl::StrCat("slice ", slice.slice_id(), " has rows [", slice.row_begin(),
                                      ", +", slice.row_count(), ") where row ", next_row, " of ",
                                      rows, " is next"));
    }
    next_row += slice.row_count();
    // All slices that move by rows are in the first call to their home, because a batch names few
    // rows.
    if (type.by_rows) {
      std::vector<PsTransfer>& of_home = calls[slice.ps()];
      PsTransfer& call = of_home.empty() ? NewCall(slice.ps(), of_home) : of_home.front();
      call.row_slices.push_back(
          {slice.slice_id(), variable, 0, slice.row_begin(), slice.row_count(), type.dynamic});
      continue;
    }
    SliceTransfer transfer;
    transfer.slice_id = slice.slice_id();
    transfer.variable = variable;
    transfer.offset = static_cast<size_t>(slice.row_begin()) * row_bytes;
    transfer.bytes = static_cast<size_t>(slice.row_count()) * row_bytes;
    transfer.shape = SliceShape(type.shape, slice.row_count());
    PsTransfer& call = CallFor(slice.ps(), transfer.bytes, call_bytes_max, calls);
    call.bytes += transfer.bytes;
    call.slices.push_back(std::move(transfer));
  }
  if (next_row != rows) {
    return Bad(layout, absl::StrCat("its slices end at row ", next_row, " of ", rows));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Compression> ReadCompression(const proto::Compression& compression) {
  Compression read;
  ASSIGN_OR_RETURN(read.pull, TravelDType("pull_dtype", compression.pull_dtype()));
  ASSIGN_OR_RETURN(read.push, TravelDType("push_dtype", compression.push_dtype()));
  read.top_k = compression.top_k();
  // The negated comparison also refuses a top_k that is NaN, with which every comparison is false.
  if (!(read.top_k >= 0 && read.top_k <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Compression.top_k is ", read.top_k, "; a fraction from 0 to 1"));
  }
  return read;
}

Shape VariableType::ValueShape() const {
  return replicas == 0 ? shape : Shape(shape.dims().subspan(1));
}

std::string VariableType::ToString() const {
  return absl::StrCat(name, ": ", DTypeName(dtype), shape.ToString());
}

size_t VariableType::row_bytes() const {
  return static_cast<size_t>(shape.row_elements()) * ElementSize(dtype);
}

RowRun RowsOfSlice(absl::Span<const int64_t> ids, const RowSlice& slice) {
  // The slices of a dynamic table are ranges of key buckets, and its ids are in the order of their
  // buckets.
  const auto before = [&](int64_t id, int64_t row) {
    return (slice.by_keys ? KeyBucket(id) : id) < row;
  };
  // Row ids ascend, so two binary searches find the first row of the slice and the end of its rows.
  const auto begin = std::lower_bound(ids.begin(), ids.end(), slice.row_begin, before);
  const auto end = std::lower_bound(begin, ids.end(), slice.row_begin + slice.row_count, before);
  return {static_cast<size_t>(begin - ids.begin()), static_cast<size_t>(end - begin)};
}

Shape RowsShape(const VariableType& type, size_t rows) {
  return SliceShape(type.shape, static_cast<int64_t>(std::max<size_t>(rows, 1)));
}

Shape RunShape(const VariableType& type, const RowRun& run) {
  std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
  dims[0] = static_cast<int64_t>(run.count);
  return Shape(absl::MakeConstSpan(dims));
}

void FillMeta(const VariableType& type, const SliceTransfer& slice, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(type.dtype));
  for (const int64_t dim : slice.shape.dims()) meta->add_dims(dim);
}

void FillRowsMeta(const VariableType& type, const RowRun& run, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(type.dtype));
  const Shape shape = RunShape(type, run);
  for (const int64_t dim : shape.dims()) meta->add_dims(dim);
}

void FillIdsMeta(size_t count, proto::TensorMeta* meta) {
  meta->set_dtype(static_cast<int32_t>(DType::kInt64));
  meta->add_dims(static_cast<int64_t>(count));
}

void AddIds(const SharedRows& rows, size_t variable, const RowRun& run, Payload& payload) {
  if (run.count == 0) return;
  // The payload shares the row ids and keeps them alive.
  payload.push_back(
      ByteSlice{rows, reinterpret_cast<const std::byte*>((*rows)[variable].data() + run.begin),
                run.count * sizeof(int64_t)});
}

absl::StatusOr<TransferPlan> MakeTransferPlan(
    absl::Span<const proto::VariableLayout* const> variables, const std::set<std::string>& by_rows,
    size_t call_bytes_max) {
  TransferPlan plan;
  Calls calls;
  for (const proto::VariableLayout* layout : variables) {
    ASSIGN_OR_RETURN(VariableType type, TypeOf(*layout));
    type.by_rows = by_rows.contains(layout->name());
    // A dynamic table can only move by rows, because it has no fixed set of rows.
    if (type.dynamic && (!type.by_rows || type.shape.rank() < 1)) {
      return Bad(*layout, "a dynamic table has no whole value; bind ids of the batch to its rows");
    }
    if (type.by_rows && type.shape.rank() == 0) return Bad(*layout, "a scalar has no rows");
    const bool has_rows = type.shape.rank() > 0 && type.shape.dim(0) == type.replicas;
    if (type.replicas > 0 && (type.by_rows || !has_rows)) {
      return Bad(*layout, absl::StrCat("values of ", type.replicas,
                                       " replicas are as many rows, which move whole"));
    }
    // A value in a device's memory can be read in place only if it moves whole and is one slice.
    type.on_device = !layout->device().empty() && layout->slices_size() == 1 && !type.by_rows;
    RETURN_IF_ERROR(AddSlices(*layout, type, plan.variables.size(), call_bytes_max, calls));
    plan.variables.push_back(std::move(type));
  }
  // The slices are numbered in the order of the calls.
  for (auto& [ps, of_home] : calls) {
    for (PsTransfer& call : of_home) {
      for (SliceTransfer& slice : call.slices) slice.ordinal = plan.num_slices++;
      for (RowSlice& slice : call.row_slices) slice.ordinal = plan.num_slices++;
      plan.by_ps.push_back(std::move(call));
    }
  }
  return plan;
}

}  // namespace cohort
