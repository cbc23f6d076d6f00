#include "ps_server/service/pushed_rows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/runtime/kernel/half_floats.h"
#include "ps_server/service/request_check.h"
#include "ps_server/slice/payload_cursor.h"

namespace cohort {

namespace {

absl::Status Bad(const proto::PushSlice& slice, const SliceLayout& layout, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("PushRequest.slices of slice ", slice.slice_id(),
                                                 ", rows of ", layout.variable, ": ", what));
}

// Returns the shape that the gradient of a slice must have. Also checks the types and shapes of the
// tensors that hold the slice's ids or positions; ReadRows checks their content later.
absl::StatusOr<Shape> GradientShape(const proto::PushSlice& slice, const VariableSlice& shard) {
  const SliceLayout& layout = shard.layout();
  if (slice.has_positions()) {
    const proto::TensorMeta& positions = slice.positions();
    if (slice.has_ids() || positions.dtype() != static_cast<int32_t>(DType::kInt32) ||
        positions.dims_size() != 1 || layout.dtype != DType::kFloat32) {
      return Bad(slice, layout, "positions must be int32[n], of float32 and without ids");
    }
    RETURN_IF_ERROR(BytesOf(positions).status());
    RETURN_IF_ERROR(CheckIsWhole(shard));
    return Shape{positions.dims(0)};
  }
  if (!slice.has_ids()) {
    RETURN_IF_ERROR(CheckIsWhole(shard));
    return shard.shape();
  }
  const proto::TensorMeta& ids = slice.ids();
  if (ids.dtype() != static_cast<int32_t>(DType::kInt64) || ids.dims_size() != 1) {
    return Bad(slice, layout, "ids must be int64[n]");
  }
  RETURN_IF_ERROR(BytesOf(ids).status());
  if (layout.full_shape.rank() == 0) return Bad(slice, layout, "a scalar has none");
  absl::InlinedVector<int64_t, 4> dims(shard.shape().dims().begin(), shard.shape().dims().end());
  dims[0] = ids.dims(0);
  return Shape(absl::MakeConstSpan(dims));
}

// Returns the type and shape of a gradient after its conversion to the slice's type: 16-bit floats
// become float32.
proto::TensorMeta AsKept(proto::TensorMeta meta, const VariableSlice& shard) {
  if (shard.layout().dtype == DType::kFloat32 && IsHalf(static_cast<DType>(meta.dtype()))) {
    meta.set_dtype(static_cast<int32_t>(DType::kFloat32));
  }
  return meta;
}

// Checks that each tensor of a push has the shape and type that its slice needs, and that the
// payload is exactly as long as all tensors together.
absl::Status CheckShapes(const Envelope<proto::PushRequest>& request,
                         absl::Span<VariableSlice* const> shards) {
  const size_t came = PayloadBytes(request.payload);
  size_t expected = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const proto::PushSlice& slice = request.header.slices(static_cast<int>(i));
    ASSIGN_OR_RETURN(const Shape shape, GradientShape(slice, *shards[i]));
    RETURN_IF_ERROR(CheckTensor(AsKept(slice.tensor(), *shards[i]), *shards[i], shape));
    ASSIGN_OR_RETURN(const size_t bytes, BytesOf(slice.tensor()));
    size_t ids_bytes = 0;
    if (slice.has_ids() || slice.has_positions()) {
      ASSIGN_OR_RETURN(ids_bytes, BytesOf(slice.has_ids() ? slice.ids() : slice.positions()));
    }
    // Each size is compared with the payload's size before it is added, because a sum of sizes from
    // a peer could overflow.
    if (bytes > came || ids_bytes > came) return CheckPayload(std::max(bytes, ids_bytes), came);
    expected += bytes + ids_bytes;
  }
  return CheckPayload(expected, came);
}

// Reads the positions of one slice's pushed elements, and checks that they ascend, so that no
// position occurs twice.
absl::Status ReadPositions(const proto::PushSlice& slice, const VariableSlice& shard,
                           PayloadCursor& cursor, PushedRows& pushed) {
  pushed.has_positions = true;
  pushed.positions.resize(static_cast<size_t>(slice.positions().dims(0)));
  cursor.CopyTo(reinterpret_cast<std::byte*>(pushed.positions.data()),
                pushed.positions.size() * sizeof(int32_t));
  int64_t last = -1;
  for (const int32_t position : pushed.positions) {
    if (position > last && position < shard.shape().num_elements()) {
      last = position;
      continue;
    }
    return Bad(
        slice, shard.layout(),
        absl::StrCat("position ", position, " follows ", last,
                     ": positions must ascend and lie below ", shard.shape().num_elements()));
  }
  return absl::OkStatus();
}

// Reads the ids or positions for each slice of a push that CheckShapes has accepted. Errors:
// INVALID_ARGUMENT that names an id or position outside its slice.
absl::StatusOr<std::vector<PushedRows>> ReadRows(const Envelope<proto::PushRequest>& request,
                                                 absl::Span<VariableSlice* const> shards) {
  std::vector<PushedRows> rows(shards.size());
  PayloadCursor cursor(request.payload);
  for (size_t i = 0; i < shards.size(); ++i) {
    const proto::PushSlice& slice = request.header.slices(static_cast<int>(i));
    ASSIGN_OR_RETURN(const size_t bytes, BytesOf(slice.tensor()));
    rows[i].dtype = static_cast<DType>(slice.tensor().dtype());
    if (slice.has_positions()) {
      RETURN_IF_ERROR(ReadPositions(slice, *shards[i], cursor, rows[i]));
    }
    if (slice.has_ids()) {
      const SliceLayout& layout = shards[i]->layout();
      rows[i].all = false;
      rows[i].ids.resize(static_cast<size_t>(slice.ids().dims(0)));
      cursor.CopyTo(reinterpret_cast<std::byte*>(rows[i].ids.data()),
                    rows[i].ids.size() * sizeof(int64_t));
      for (const int64_t id : rows[i].ids) {
        if (!layout.Holds(id)) return Bad(slice, layout, layout.WhyOutside(id));
      }
    }
    cursor.Skip(bytes);
  }
  return rows;
}

// Checks the fields of a push that belong to a synchronous round: a round takes at least one push,
// a value may be assigned only to a whole slice and within a round, and the pushes of a round must
// have a type and an aggregation by which they can be joined.
absl::Status CheckRound(const proto::PushRequest& push, absl::Span<VariableSlice* const> shards) {
  if (push.round() > 0 && push.aggregate() == 0) {
    return absl::InvalidArgumentError("PushRequest.aggregate is 0; a round takes at least one");
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    const proto::PushSlice& slice = push.slices(static_cast<int>(i));
    const SliceLayout& layout = shards[i]->layout();
    if (slice.assign() && (push.round() == 0 || slice.has_ids())) {
      return absl::InvalidArgumentError(
          absl::StrCat("PushRequest.slices of ", layout.ToString(),
                       ": assign is for whole slices, and in a round; else there is Assign"));
    }
    // The pushes of a round with a single push need not be joined.
    if (push.aggregate() <= 1) continue;
    const auto update = slice.assign() ? ReplicaUpdate::kAssign : ReplicaUpdate::kPush;
    const ReplicaContext replicas{layout.variable, layout.rule, layout.aggregation, update};
    RETURN_IF_ERROR(replicas.Check());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PushedRows>> CheckPush(const Envelope<proto::PushRequest>& request,
                                                  absl::Span<VariableSlice* const> shards) {
  const proto::PushRequest& push = request.header;
  // If a slice occurred twice, it would drop the second gradient as a duplicate of the first.
  std::set<uint32_t> seen;
  for (const proto::PushSlice& slice : push.slices()) {
    if (!seen.insert(slice.slice_id()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("PushRequest.slices has slice ", slice.slice_id(), " twice"));
    }
  }
  RETURN_IF_ERROR(CheckShapes(request, shards));
  if (!std::isfinite(push.learning_rate())) {
    return absl::InvalidArgumentError(
        absl::StrCat("PushRequest.learning_rate is ", push.learning_rate()));
  }
  RETURN_IF_ERROR(CheckRound(push, shards));
  const bool optimizer_needs_step = std::any_of(
      shards.begin(), shards.end(),
      [](const VariableSlice* shard) { return shard->layout().rule.op() != "assign_add"; });
  if (push.step() == 0 && optimizer_needs_step) {
    return absl::InvalidArgumentError("PushRequest.step is 0; steps count from 1");
  }
  return ReadRows(request, shards);
}

}  // namespace cohort
