// The calls CreateVariables, and Assign without an update number.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "ps_server/service/ps_service.h"
#include "ps_server/service/request_check.h"

namespace cohort {

absl::StatusOr<std::shared_ptr<PsService::Contents>> PsService::ContentsOfHolder(uint64_t epoch) {
  ASSIGN_OR_RETURN(const ClosureWindow window, push_gate_->Window(epoch));
  std::shared_ptr<Contents> before = contents();
  if (before->made_by == window.coordinator_incarnation) return before;
  RETURN_IF_ERROR(EnterEpoch(epoch));
  staging_ = Staging();  // the staged restore has pointers to slices that are freed below
  const auto slices = static_cast<uint32_t>(before->store.All().size());
  before.reset();
  {
    // The former coordinator's slices are freed before new slices are made, since the memory may be
    // too small for both.
    std::shared_ptr<Contents> made = std::make_shared<Contents>(store_options_);
    made->made_by = window.coordinator_incarnation;
    made->replaced = slices;
    MutexLock lock(mutex_);
    contents_.swap(made);
  }
  // The statistics of both budgets restart for the new coordinator.
  receive_budget_->CountAnew();
  send_budget_->CountAnew();
  return contents();
}

absl::StatusOr<Envelope<proto::CreateVariablesResponse>> PsService::CreateVariables(
    const Envelope<proto::CreateVariablesRequest>& request) {
  const uint64_t epoch = request.header.epoch();
  ASSIGN_OR_RETURN(const std::shared_ptr<Contents> contents, ContentsOfHolder(epoch));
  VariableStore& store = contents->store;
  ASSIGN_OR_RETURN(
      const std::vector<uint32_t> created,
      store.Create(request.header.variables(), [&] { return task_service_->CheckEpoch(epoch); }));
  size_t resident = 0;
  for (const VariableSlice* shard : store.All()) resident += shard->layout().resident_bytes();
  Log(LogLevel::kInfo, "variables_created",
      {{"variables", request.header.variables_size()},
       {"slices_created", created.size()},
       {"slices_replaced", contents->replaced},
       {"resident_bytes", resident}});
  Envelope<proto::CreateVariablesResponse> response;
  response.header.mutable_created_slice_ids()->Add(created.begin(), created.end());
  response.header.set_replaced_slices(contents->replaced);
  return response;
}

absl::StatusOr<Envelope<proto::AssignResponse>> PsService::Assign(
    const Envelope<proto::AssignRequest>& request) {
  const proto::AssignRequest& header = request.header;
  const std::shared_ptr<Contents> contents = this->contents();
  ASSIGN_OR_RETURN(const std::vector<VariableSlice*> shards,
                   contents->store.Find(header.slice_ids()));
  const auto admit = [&] { return task_service_->CheckEpoch(header.epoch()); };
  // All slices are checked to have a moving average before the first slice is changed.
  if (header.averages()) {
    for (const VariableSlice* shard : shards) RETURN_IF_ERROR(shard->CheckHasAverage());
    for (VariableSlice* shard : shards) RETURN_IF_ERROR(shard->AssignAverage(admit));
    return Envelope<proto::AssignResponse>();
  }
  for (const VariableSlice* shard : shards) RETURN_IF_ERROR(CheckIsWhole(*shard));
  if (!header.slot().empty()) return SetSlots(request, shards);
  if (header.update() != 0) return Change(request, shards);
  if (header.op() != proto::CHANGE_SET || header.ids_size() != 0) {
    return absl::InvalidArgumentError(
        "AssignRequest.update is 0; only the value of whole slices is set without a number");
  }
  if (header.tensors_size() != header.slice_ids_size()) {
    return absl::InvalidArgumentError(absl::StrCat("AssignRequest has ", header.slice_ids_size(),
                                                   " slice_ids and ", header.tensors_size(),
                                                   " tensors"));
  }
  // The types and shapes of all tensors and the payload's size are checked before the first slice
  // is changed.
  size_t expected = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const proto::TensorMeta& meta = header.tensors(static_cast<int>(i));
    RETURN_IF_ERROR(CheckTensor(meta, *shards[i], shards[i]->shape()));
    expected += shards[i]->num_bytes();
  }
  RETURN_IF_ERROR(CheckPayload(expected, PayloadBytes(request.payload)));
  PayloadCursor cursor(request.payload);
  for (VariableSlice* shard : shards) RETURN_IF_ERROR(shard->Assign(cursor, admit));
  return Envelope<proto::AssignResponse>();
}

}  // namespace cohort
