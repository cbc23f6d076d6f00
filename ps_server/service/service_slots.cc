// The calls Assign and Pull with the name of a slot. Assign gives slices what another program's
// optimizer kept beside its variables, and a repeated call changes nothing. Pull reads what another
// program's optimizer is to go on with.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "ps_server/service/ps_service.h"
#include "ps_server/service/request_check.h"

namespace cohort {

namespace {

// Returns the number of a slot among those of the slice's update rule.
absl::StatusOr<size_t> FindSlot(const SliceLayout& layout, const std::string& name) {
  const std::vector<SlotSpec>& slots = layout.rule_spec.slots;
  const auto found = std::find_if(slots.begin(), slots.end(),
                                  [&](const SlotSpec& slot) { return slot.name == name; });
  if (found != slots.end()) return static_cast<size_t>(found - slots.begin());
  const auto name_of = [](std::string* out, const SlotSpec& slot) { out->append(slot.name); };
  return absl::InvalidArgumentError(
      absl::StrCat(layout.ToString(), " has no slot '", Excerpt(name), "'; it has ",
                   slots.empty() ? "none" : absl::StrJoin(slots, ", ", name_of)));
}

absl::Status CheckForm(const proto::AssignRequest& header) {
  const bool fits = header.update() != 0 && header.op() == proto::CHANGE_SET &&
                    header.ids_size() == 0 && header.tensors_size() == header.slice_ids_size();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("AssignRequest sets a slot of ", header.slice_ids_size(), " slices with ",
                   header.tensors_size(), " tensors, ", header.ids_size(), " ids, op ",
                   static_cast<int>(header.op()), " and update ", header.update(),
                   "; a slot is set as a whole, with a tensor for each slice and a number"));
}

// Checks that a tensor is float32 with the slot's shape. Returns its size in bytes.
absl::StatusOr<size_t> CheckContent(const proto::TensorMeta& meta, const SliceLayout& layout,
                                    const SlotSpec& slot) {
  const Shape expected = layout.shape_of(slot);
  const Shape came(absl::MakeConstSpan(meta.dims().data(), static_cast<size_t>(meta.dims_size())));
  if (meta.dtype() != static_cast<int32_t>(DType::kFloat32) || came != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable ", layout.variable, ", slice ", layout.slice_id, ": its slot ",
                     slot.name, " takes float32", expected.ToString(), ", the message has type ",
                     meta.dtype(), " ", came.ToString()));
  }
  return static_cast<size_t>(expected.num_elements()) * sizeof(float);
}

// Checks that a pull of a slot asks for nothing else.
absl::Status CheckForm(const proto::PullRequest& header) {
  if (header.rows_size() == 0 && header.value_dtype() == 0 && header.round() == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "PullRequest reads a slot of ", header.slice_ids_size(), " slices with ", header.rows_size(),
      " lists of rows, value_dtype ", header.value_dtype(), " and round ", header.round(),
      "; a slot is read as a whole, as it is and at its present content"));
}

}  // namespace

size_t PsService::SlotBytes(absl::Span<VariableSlice* const> shards, const std::string& slot) {
  size_t bytes = 0;
  for (const VariableSlice* shard : shards) {
    const absl::StatusOr<size_t> number = FindSlot(shard->layout(), slot);
    if (!number.ok()) return 0;
    const Shape shape = shard->layout().shape_of(shard->layout().rule_spec.slots[*number]);
    bytes += static_cast<size_t>(shape.num_elements()) * sizeof(float);
  }
  return bytes;
}

absl::StatusOr<Envelope<proto::PullResponse>> PsService::PullSlots(
    const proto::PullRequest& header, absl::Span<VariableSlice* const> shards) {
  RETURN_IF_ERROR(CheckForm(header));
  std::vector<size_t> slots;
  for (const VariableSlice* shard : shards) {
    ASSIGN_OR_RETURN(const size_t slot, FindSlot(shard->layout(), header.slot()));
    slots.push_back(slot);
  }
  Envelope<proto::PullResponse> response;
  for (size_t i = 0; i < shards.size(); ++i) {
    const SliceLayout& layout = shards[i]->layout();
    VariableSlice::Reading reading = shards[i]->ReadSlot(slots[i]);
    response.header.add_versions(reading.version);
    proto::TensorMeta& meta = *response.header.add_tensors();
    meta.set_dtype(static_cast<int32_t>(DType::kFloat32));
    const Shape shape = layout.shape_of(layout.rule_spec.slots[slots[i]]);
    meta.mutable_dims()->Add(shape.dims().begin(), shape.dims().end());
    std::move(reading.bytes.begin(), reading.bytes.end(), std::back_inserter(response.payload));
  }
  return response;
}

absl::StatusOr<Envelope<proto::AssignResponse>> PsService::SetSlots(
    const Envelope<proto::AssignRequest>& request, absl::Span<VariableSlice* const> shards) {
  const proto::AssignRequest& header = request.header;
  RETURN_IF_ERROR(CheckForm(header));
  // Slots, types, shapes and the payload's size are checked before the first slice is changed.
  std::vector<size_t> slots;
  const size_t came = PayloadBytes(request.payload);
  size_t expected = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const SliceLayout& layout = shards[i]->layout();
    ASSIGN_OR_RETURN(const size_t slot, FindSlot(layout, header.slot()));
    ASSIGN_OR_RETURN(const size_t bytes, CheckContent(header.tensors(static_cast<int>(i)), layout,
                                                      layout.rule_spec.slots[slot]));
    // Compared before it is added, because a slice may be named many times.
    if (bytes > came) return CheckPayload(bytes, came);
    expected += bytes;
    slots.push_back(slot);
  }
  RETURN_IF_ERROR(CheckPayload(expected, came));
  const auto gate = [&] { return push_gate_->Window(header.epoch()); };
  PayloadCursor cursor(request.payload);
  for (size_t i = 0; i < shards.size(); ++i) {
    RETURN_IF_ERROR(shards[i]->SetSlot(slots[i], header.update(), cursor, gate).status());
  }
  return Envelope<proto::AssignResponse>();
}

absl::StatusOr<bool> VariableSlice::SetSlot(size_t slot, uint64_t update, PayloadCursor& content,
                                            AskGate gate) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  // As in Change(): the call is a repetition, or a later change was made first.
  if (update <= history_.update) {
    const Shape shape = layout_.shape_of(layout_.rule_spec.slots[slot]);
    content.Skip(static_cast<size_t>(shape.num_elements()) * sizeof(float));
    return false;
  }
  history_.update = update;
  slots_[slot].Replace([&](std::byte* out, size_t size) { content.CopyTo(out, size); });
  return true;
}

VariableSlice::Reading VariableSlice::ReadSlot(size_t slot) const {
  MutexLock lock(mutex_);
  return {slots_[slot].Lease(), history_.version};
}

}  // namespace cohort
