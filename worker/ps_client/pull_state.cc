#include "worker/ps_client/pull_state.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/cluster_spec.h"
#include "common/runtime/kernel/half_floats.h"
#include "common/wire/error_detail.h"
#include "common/wire/message.h"
#include "proto/tensor.pb.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

namespace {

// Returns true if the received tensor has the variable's type. A float32 variable may also arrive
// in 16 bits.
bool FitsType(const VariableType& type, const proto::TensorMeta& meta) {
  const auto dtype = static_cast<DType>(meta.dtype());
  return dtype == type.dtype || (type.dtype == DType::kFloat32 && IsHalf(dtype));
}

// Returns true if the received tensor has the type and shape of the slice.
bool FitsSlice(const VariableType& type, const SliceTransfer& slice,
               const proto::TensorMeta& meta) {
  return FitsType(type, meta) &&
         Shape(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size()))) ==
             slice.shape;
}

// Returns true if the received tensor has the variable's type and the shape of the pulled rows of
// one slice.
bool FitsRows(const VariableType& type, const RowRun& run, const proto::TensorMeta& meta) {
  return FitsType(type, meta) &&
         Shape(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size()))) ==
             RunShape(type, run);
}

// Copies the next tensor in the payload to `out`, and widens 16-bit floats to float32. Errors:
// those of PayloadReader, for a payload that is too short.
absl::Status ReadInto(PayloadReader& reader, DType dtype, absl::Span<std::byte> out) {
  if (!IsHalf(dtype)) return reader.Read(out);
  std::vector<uint16_t> narrow(out.size() / sizeof(float));
  RETURN_IF_ERROR(reader.Read(absl::MakeSpan(reinterpret_cast<std::byte*>(narrow.data()),
                                             narrow.size() * sizeof(uint16_t))));
  WidenFloats(narrow.data(), narrow.size(), dtype, reinterpret_cast<float*>(out.data()));
  return absl::OkStatus();
}

absl::Status BadAnswer(uint32_t ps, absl::string_view what) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::APPLICATION);
  detail.mutable_origin()->set_role(RoleName(Role::kPs));
  detail.mutable_origin()->set_index(static_cast<int32_t>(ps));
  return WithDetail(absl::InternalError(absl::StrCat("ps:", ps, " answered a pull with ", what)),
                    detail);
}

}  // namespace

PullState::PullState(std::shared_ptr<const TransferPlan> plan, SharedRows rows, Allocate allocate)
    : plan_(std::move(plan)), rows_(std::move(rows)) {
  for (size_t i = 0; i < plan_->variables.size(); ++i) {
    const VariableType& type = plan_->variables[i];
    // A variable whose value will be the received memory itself needs no tensor.
    if (IsKept(type)) {
      pulled_.values.emplace_back();
      continue;
    }
    const Shape shape = type.by_rows ? RowsShape(type, (*rows_)[i].size()) : type.shape;
    pulled_.values.push_back(allocate(type, shape));
    // If no row of a variable is pulled, its tensor still has one row (see RowsShape), which is set
    // to zeros, because no answer fills it.
    if (type.by_rows && (*rows_)[i].empty()) {
      std::memset(pulled_.values.back().mutable_raw(), 0, pulled_.values.back().num_bytes());
    }
  }
  pulled_.versions.resize(plan_->num_slices);
}

Envelope<proto::PullRequest> PullState::Request(size_t part, uint64_t epoch, uint64_t round) const {
  const PsTransfer& home = plan_->by_ps[part];
  Envelope<proto::PullRequest> request;
  const DType dtype = plan_->compression.pull;
  // The transport chooses among its routes by the expected size of the answer.
  request.answer_bytes = (home.bytes + RowBytes(home)) / (IsHalf(dtype) ? 2 : 1);
  if (IsHalf(dtype)) request.header.set_value_dtype(static_cast<int32_t>(dtype));
  request.header.set_epoch(epoch);
  request.header.set_round(round);
  for (const SliceTransfer& slice : home.slices) request.header.add_slice_ids(slice.slice_id);
  for (const RowSlice& slice : home.row_slices) {
    const RowRun run = RunOf(slice);
    proto::PullRows* const rows = request.header.add_rows();
    rows->set_slice_id(slice.slice_id);
    FillIdsMeta(run.count, rows->mutable_ids());
    AddIds(rows_, slice.variable, run, request.payload);
  }
  return request;
}

absl::Status PullState::Read(size_t part, const Envelope<proto::PullResponse>& answer) {
  const PsTransfer& home = plan_->by_ps[part];
  const auto whole = static_cast<int>(home.slices.size());
  const int count = whole + static_cast<int>(home.row_slices.size());
  // The numbers of tensors and versions are checked first, because the loop reads them by index.
  if (answer.header.tensors_size() != count || answer.header.versions_size() != count) {
    return BadAnswer(home.ps, absl::StrCat(answer.header.tensors_size(), " tensors, not ", count));
  }
  PayloadReader reader(answer.payload);
  for (int i = 0; i < count; ++i) {
    const proto::TensorMeta& meta = answer.header.tensors(i);
    // An answer has the tensors of whole slices first, then those of slices by rows, in the order
    // of the request.
    if (i < whole && IsKept(plan_->variables[home.slices[static_cast<size_t>(i)].variable])) {
      const SliceTransfer& slice = home.slices[static_cast<size_t>(i)];
      RETURN_IF_ERROR(Keep(slice, meta, home.ps, reader));
      pulled_.versions[slice.ordinal] = answer.header.versions(i);
      continue;
    }
    const Place place = i < whole ? PlaceOf(home.slices[static_cast<size_t>(i)], meta)
                                  : PlaceOf(home.row_slices[static_cast<size_t>(i - whole)], meta);
    if (!place.fits) {
      return BadAnswer(home.ps,
                       absl::StrCat("a slice ", place.slice_id, " of another type or shape"));
    }
    if (!ReadInto(reader, static_cast<DType>(meta.dtype()), place.bytes).ok()) {
      return BadAnswer(home.ps, absl::StrCat("too few bytes, ", PayloadBytes(answer.payload)));
    }
    pulled_.versions[place.ordinal] = answer.header.versions(i);
  }
  // Bytes after the last tensor mean that the home has answered a different request.
  if (reader.remaining() == 0) return absl::OkStatus();
  return BadAnswer(home.ps, absl::StrCat(reader.remaining(), " bytes after its tensors"));
}

bool PullState::IsKept(const VariableType& type) const {
  // Values that arrive in 16 bits must be widened into other memory, so the received memory cannot
  // become the value.
  return type.on_device && plan_->compression.pull == DType::kFloat32;
}

absl::Status PullState::Keep(const SliceTransfer& slice, const proto::TensorMeta& meta, uint32_t ps,
                             PayloadReader& reader) {
  const VariableType& type = plan_->variables[slice.variable];
  if (!FitsSlice(type, slice, meta) || static_cast<DType>(meta.dtype()) != type.dtype) {
    return BadAnswer(ps, absl::StrCat("a slice ", slice.slice_id, " of another type or shape"));
  }
  absl::StatusOr<Tensor> value = reader.ReadTensor(meta);
  if (!value.ok()) return BadAnswer(ps, value.status().message());
  pulled_.values[slice.variable] = *std::move(value);
  return absl::OkStatus();
}

RowRun PullState::RunOf(const RowSlice& slice) const {
  return RowsOfSlice((*rows_)[slice.variable], slice);
}

size_t PullState::RowBytes(const PsTransfer& home) const {
  size_t bytes = 0;
  for (const RowSlice& slice : home.row_slices) {
    bytes += RunOf(slice).count * plan_->variables[slice.variable].row_bytes();
  }
  return bytes;
}

PullState::Place PullState::PlaceOf(const SliceTransfer& slice, const proto::TensorMeta& meta) {
  std::byte* const rows = pulled_.values[slice.variable].mutable_raw() + slice.offset;
  return {FitsSlice(plan_->variables[slice.variable], slice, meta), slice.slice_id, slice.ordinal,
          absl::MakeSpan(rows, slice.bytes)};
}

PullState::Place PullState::PlaceOf(const RowSlice& slice, const proto::TensorMeta& meta) {
  const VariableType& type = plan_->variables[slice.variable];
  const RowRun run = RunOf(slice);
  std::byte* const rows =
      pulled_.values[slice.variable].mutable_raw() + run.begin * type.row_bytes();
  return {FitsRows(type, run, meta), slice.slice_id, slice.ordinal,
          absl::MakeSpan(rows, run.count * type.row_bytes())};
}

}  // namespace cohort
