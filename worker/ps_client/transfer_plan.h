#pragma once

// The plan by which values of variables travel between a worker and the variables' homes. A
// variable is cut into slices of rows, and each slice has a home. The plan lists the slices of some
// variables by home, so that few calls to each home move all slices, directly to or from their
// place in the variable's tensor. A home gets one call, unless its slices have more bytes than one
// call may move.
//
// For a variable that moves by rows, the tensor consists of the rows that a transfer names, in
// ascending order, so that the rows of one slice are adjacent. A dynamic table always moves by
// rows. Its rows are ordered by the hashes of their keys (slice_spec.h), which makes the rows of
// one slice adjacent as well.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "common/wire/frame_limits.h"
#include "common/wire/message.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/tensor.pb.h"

namespace cohort {

// A variable in a transfer plan.
struct VariableType {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
  bool by_rows = false;
  bool dynamic = false;  // true for a dynamic table, whose rows are found by keys
  // Number of replicas of which each has a row in the variable (common/program/aggregation.h); 0
  // for a variable without such rows.
  int64_t replicas = 0;
  // True if the variable is one slice in a device's memory, which is read there without a copy.
  bool on_device = false;
  Shape ValueShape() const;      // shape of the value that graphs have for this variable
  std::string ToString() const;  // for messages, for example "w: float32[784,256]"
  size_t row_bytes() const;
};

// A slice that moves whole.
struct SliceTransfer {
  uint32_t slice_id = 0;
  size_t variable = 0;  // number of the slice's variable in TransferPlan::variables
  size_t ordinal = 0;   // number of the slice among all slices of the plan
  size_t offset = 0;    // offset of the slice in the variable's tensor, in bytes
  size_t bytes = 0;
  Shape shape;
};

// A slice of a variable that moves by rows; a transfer moves some of its rows.
struct RowSlice {
  uint32_t slice_id = 0;
  size_t variable = 0;
  size_t ordinal = 0;
  int64_t row_begin = 0;  // first row of the slice; of a dynamic table, its first bucket of keys
  int64_t row_count = 0;
  bool by_keys = false;
};

// The slices that one call to one home moves. `ps` is the index of the home.
struct PsTransfer {
  uint32_t ps = 0;
  std::vector<SliceTransfer> slices;  // slices that move whole
  size_t bytes = 0;                   // sum of the bytes of `slices`
  std::vector<RowSlice> row_slices;
};

// The ids of the rows that a transfer moves, for each variable of a plan: each id once, in the
// order of the rows in the tensor. Empty for a variable that moves whole.
using RowIds = std::vector<std::vector<int64_t>>;

// Row ids; shared by the requests under way. Null: no variable of the plan moves by rows.
using SharedRows = std::shared_ptr<const RowIds>;

// The run of adjacent rows, among all rows that a transfer moves, that belong to one slice.
struct RowRun {
  size_t begin = 0;
  size_t count = 0;
};
// Returns which of the row ids `ids` belong to the slice. `ids` are in the order of the rows.
RowRun RowsOfSlice(absl::Span<const int64_t> ids, const RowSlice& slice);

// Returns the shape of a tensor of `rows` rows of a variable. With 0 rows the tensor still has one
// row, of zeros, because a graph may read a row and multiply it by zero; this row is never sent.
Shape RowsShape(const VariableType& type, size_t rows);

// Returns the shape of a tensor with the rows of one slice, perhaps of no rows.
Shape RunShape(const VariableType& type, const RowRun& run);

// Fill `meta` with the type and shape of a whole slice, of the rows of a slice, or of row ids.
void FillMeta(const VariableType& type, const SliceTransfer& slice, proto::TensorMeta* meta);
void FillRowsMeta(const VariableType& type, const RowRun& run, proto::TensorMeta* meta);
void FillIdsMeta(size_t count, proto::TensorMeta* meta);

// Adds the ids of the rows `run` of a variable to a payload, which shares the memory of `rows`.
void AddIds(const SharedRows& rows, size_t variable, const RowRun& run, Payload& payload);

// The types in which float32 values travel, and how many elements of a gradient
// (proto/program.proto).
struct Compression {
  DType pull = DType::kFloat32;
  DType push = DType::kFloat32;
  double top_k = 0;  // share of a slice's elements that a push sends; 0: all elements
};
// Reads the settings of compression from their proto. Errors: INVALID_ARGUMENT naming the field,
// its value and the allowed values.
absl::StatusOr<Compression> ReadCompression(const proto::Compression& compression);

// The calls that move the values of some variables.
struct TransferPlan {
  std::vector<VariableType> variables;
  std::vector<PsTransfer> by_ps;  // the calls to all homes, in ascending order of the homes
  size_t num_slices = 0;
  Compression compression;

  bool empty() const { return variables.empty(); }
};

// Makes a plan for the variables with these layouts; those named in `by_rows` move by rows. A call
// moves at most `call_bytes_max` bytes of whole slices, but at least one slice. Errors:
// INVALID_ARGUMENT naming a variable whose type is unknown or whose slices do not cover axis 0
// exactly once in row order; a scalar in `by_rows`; a dynamic table that is not in `by_rows`; a
// variable with one row per replica that is in `by_rows` or whose axis 0 is not the number of
// replicas.
absl::StatusOr<TransferPlan> MakeTransferPlan(
    absl::Span<const proto::VariableLayout* const> variables, const std::set<std::string>& by_rows,
    size_t call_bytes_max = kCallBytesMax);

}  // namespace cohort
