#pragma once

// The plan of which bytes of which tensors travel between a worker and each parameter server. A
// variable is cut into slices of rows, each with a home; a plan lists the slices of some variables
// by home, so that few calls to each server move all of them, straight to or from their place in
// the whole tensor: one call, unless its slices have more bytes than a call moves. For a variable
// that moves by rows, the tensor is the rows that a transfer names, in ascending order, so that
// those of one slice lie together; for a dynamic table, which always does, in the order of its
// keys' hashes (key_bucket.h), to the same end.

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

struct VariableType {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
  bool by_rows = false;
  bool dynamic = false;      // rows under keys
  int64_t replicas = 0;      // whose rows the shape has (common/program/replica_rows.h); 0: of none
  bool on_device = false;    // whole in the memory of a device: read there, without a copy
  Shape ValueShape() const;  // as a graph has it
  std::string ToString() const;  // "w: float32[784,256]"
  size_t row_bytes() const;
};

struct SliceTransfer {
  uint32_t slice_id = 0;
  size_t variable = 0;  // index in TransferPlan::variables
  size_t ordinal = 0;   // counts all slices of the plan in its order
  size_t offset = 0;    // offset of its first byte in the whole variable
  size_t bytes = 0;
  Shape shape;
};

// A slice of a variable that moves by rows.
struct RowSlice {
  uint32_t slice_id = 0;
  size_t variable = 0;
  size_t ordinal = 0;
  int64_t row_begin = 0;  // a bucket of keys, of a dynamic table
  int64_t row_count = 0;
  bool by_keys = false;
};

// The content of one call.
struct PsTransfer {
  uint32_t ps = 0;
  std::vector<SliceTransfer> slices;  // whole
  size_t bytes = 0;                   // their bytes
  std::vector<RowSlice> row_slices;
};

// The rows of each variable of a plan that a transfer moves, in the order above and each once;
// empty for variables that move whole.
using RowIds = std::vector<std::vector<int64_t>>;

// Row ids that requests on their way share. Null: none moves by rows.
using SharedRows = std::shared_ptr<const RowIds>;

// The run of a slice's rows among all rows.
struct RowRun {
  size_t begin = 0;
  size_t count = 0;
};
RowRun RowsOfSlice(absl::Span<const int64_t> ids, const RowSlice& slice);

// Returns the shape of a tensor of rows, which has at least one, for graphs that read a row times
// zero: a row of zeros, never sent, if no row is named.
Shape RowsShape(const VariableType& type, size_t rows);

// Returns the shape of the rows of one run alone, of which there may be none.
Shape RunShape(const VariableType& type, const RowRun& run);

// Describe, in a message, a whole slice, the rows of a run and their ids.
void FillMeta(const VariableType& type, const SliceTransfer& slice, proto::TensorMeta* meta);
void FillRowsMeta(const VariableType& type, const RowRun& run, proto::TensorMeta* meta);
void FillIdsMeta(size_t count, proto::TensorMeta* meta);

// Adds the ids of a run to a payload, without a copy.
void AddIds(const SharedRows& rows, size_t variable, const RowRun& run, Payload& payload);

// The types in which float32 values travel (proto/program.proto).
struct Compression {
  DType pull = DType::kFloat32;
  DType push = DType::kFloat32;
  double top_k = 0;  // fraction of a slice's elements; 0: all
};
// Errors: INVALID_ARGUMENT naming the field, its value and what it may be.
absl::StatusOr<Compression> ReadCompression(const proto::Compression& compression);

struct TransferPlan {
  std::vector<VariableType> variables;
  std::vector<PsTransfer> by_ps;  // ascending; several of one server follow each other
  size_t num_slices = 0;
  Compression compression;

  bool empty() const { return variables.empty(); }
};

// Makes a plan in which the variables named in `by_rows` move by rows. A call moves at most so many
// bytes of whole slices, but at least one slice. Errors: INVALID_ARGUMENT naming the variable whose
// type is unknown, whose slices do not cover axis 0 once, in row order, or that has no rows, and a
// dynamic table that is to move whole.
absl::StatusOr<TransferPlan> MakeTransferPlan(
    absl::Span<const proto::VariableLayout* const> variables, const std::set<std::string>& by_rows,
    size_t call_bytes_max = kCallBytesMax);

}  // namespace cohort
