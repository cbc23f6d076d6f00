#pragma once

// The plan of which bytes of which tensors travel between a worker and each parameter server. A
// variable is cut into slices of rows, and each slice has a home. A plan lists the slices of some
// variables by home, so that few calls to each server move all slices, directly to or from their
// place in the whole tensor. A server gets one call, unless its slices have more bytes than one
// call moves.
//
// For a variable that moves by rows, the tensor consists of the rows that a transfer names, in
// ascending order, so that the rows of one slice are adjacent. A dynamic table always moves by
// rows, in the order of its keys' hashes (slice_spec.h), for the same reason.

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
  // The number of replicas that have a row each in the variable (common/program/aggregation.h), or
  // 0.
  int64_t replicas = 0;
  // True if the whole variable is in a device's memory and is read there without a copy.
  bool on_device = false;
  Shape ValueShape() const;      // shape of the variable's value in a graph
  std::string ToString() const;  // for messages, for example "w: float32[784,256]"
  size_t row_bytes() const;
};

// A slice that moves whole.
struct SliceTransfer {
  uint32_t slice_id = 0;
  size_t variable = 0;  // index of the slice's variable in TransferPlan::variables
  size_t ordinal = 0;   // number of the slice among all slices of the plan
  size_t offset = 0;    // offset of the slice in the whole variable, in bytes
  size_t bytes = 0;
  Shape shape;
};

// A slice of a variable that moves by rows.
struct RowSlice {
  uint32_t slice_id = 0;
  size_t variable = 0;
  size_t ordinal = 0;
  int64_t row_begin = 0;  // first row of the slice; for a dynamic table, the first bucket of keys
  int64_t row_count = 0;
  bool by_keys = false;
};

// The content of one call to one server.
struct PsTransfer {
  uint32_t ps = 0;
  std::vector<SliceTransfer> slices;  // slices of the call that move whole
  size_t bytes = 0;                   // sum of the bytes of `slices`
  std::vector<RowSlice> row_slices;
};

// For each variable of a plan: the ids of the rows that a transfer moves, each id once, in the
// order of the rows in the tensor. Empty for variables that move whole.
using RowIds = std::vector<std::vector<int64_t>>;

// Row ids, shared by the requests under way. Null: no variable moves by rows.
using SharedRows = std::shared_ptr<const RowIds>;

// The adjacent rows that belong to one slice, among all rows that a transfer moves.
struct RowRun {
  size_t begin = 0;
  size_t count = 0;
};
// Returns the rows of the slice among the sorted row ids `ids`.
RowRun RowsOfSlice(absl::Span<const int64_t> ids, const RowSlice& slice);

// Returns the shape of a tensor of `rows` rows, or of one row if `rows` is 0, because graphs may
// read a row and multiply it by zero. That single row is zeros and is never sent.
Shape RowsShape(const VariableType& type, size_t rows);

// Returns the shape of one slice's rows. There may be no rows.
Shape RunShape(const VariableType& type, const RowRun& run);

// Fill `meta` with the type and shape of a whole slice, of one slice's rows, or of row ids.
void FillMeta(const VariableType& type, const SliceTransfer& slice, proto::TensorMeta* meta);
void FillRowsMeta(const VariableType& type, const RowRun& run, proto::TensorMeta* meta);
void FillIdsMeta(size_t count, proto::TensorMeta* meta);

// Adds the ids of one slice's rows to a payload, without a copy.
void AddIds(const SharedRows& rows, size_t variable, const RowRun& run, Payload& payload);

// The types in which float32 values are sent (proto/program.proto).
struct Compression {
  DType pull = DType::kFloat32;
  DType push = DType::kFloat32;
  double top_k = 0;  // share of a slice's elements that a push sends; 0: all elements
};
// Reads and checks the settings of compression. Errors: INVALID_ARGUMENT naming the field, its
// value and the allowed values.
absl::StatusOr<Compression> ReadCompression(const proto::Compression& compression);

// A plan of the calls that move the values of some variables.
struct TransferPlan {
  std::vector<VariableType> variables;
  std::vector<PsTransfer> by_ps;  // calls by ascending server; calls to one server are adjacent
  size_t num_slices = 0;
  Compression compression;

  bool empty() const { return variables.empty(); }
};

// Makes a plan in which the variables named in `by_rows` move by rows. A call moves at most
// `call_bytes_max` bytes of whole slices, but at least one slice. Errors: INVALID_ARGUMENT naming a
// variable whose type is unknown, whose slices do not cover axis 0 exactly once in row order, or
// that has no rows, and a dynamic table that is to move whole.
absl::StatusOr<TransferPlan> MakeTransferPlan(
    absl::Span<const proto::VariableLayout* const> variables, const std::set<std::string>& by_rows,
    size_t call_bytes_max = kCallBytesMax);

}  // namespace cohort
