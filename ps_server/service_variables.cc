// CreateVariables, Pull and Assign.

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "ps_server/ps_service.h"
#include "ps_server/pull_rows.h"

namespace cohort {

absl::StatusOr<Envelope<proto::CreateVariablesResponse>> PsService::CreateVariables(
    const Envelope<proto::CreateVariablesRequest>& request) {
  const uint64_t epoch = request.header.epoch();
  ASSIGN_OR_RETURN(
      const std::vector<uint32_t> created,
      store_.Create(request.header.variables(), [&] { return task_service_->CheckEpoch(epoch); }));
  size_t resident = 0;
  for (const VariableShard* shard : store_.All()) resident += shard->layout().resident_bytes();
  Log(LogLevel::kInfo, "variables_created",
      {{"variables", request.header.variables_size()},
       {"slices_created", created.size()},
       {"resident_bytes", resident}});
  Envelope<proto::CreateVariablesResponse> response;
  response.header.mutable_created_slice_ids()->Add(created.begin(), created.end());
  return response;
}

absl::StatusOr<Envelope<proto::PullResponse>> PsService::Pull(
    const Envelope<proto::PullRequest>& request) {
  ASSIGN_OR_RETURN(const std::vector<VariableShard*> shards,
                   store_.Find(request.header.slice_ids()));
  for (const VariableShard* shard : shards) RETURN_IF_ERROR(CheckIsWhole(*shard));
  std::vector<uint32_t> row_slices;
  for (const proto::PullRows& rows : request.header.rows()) row_slices.push_back(rows.slice_id());
  ASSIGN_OR_RETURN(const std::vector<VariableShard*> row_shards, store_.Find(row_slices));
  ASSIGN_OR_RETURN(const auto row_ids, ReadRowIds(request, row_shards));
  Envelope<proto::PullResponse> response;
  response.payload.reserve(shards.size() + 1);
  PsStats::Pull counted;
  for (const VariableShard* shard : shards) {
    VariableShard::Reading reading = shard->Read();
    proto::TensorMeta& meta = *response.header.add_tensors();
    meta.set_dtype(static_cast<int32_t>(shard->layout().dtype));
    const absl::Span<const int64_t> dims = shard->shape().dims();
    meta.mutable_dims()->Add(dims.begin(), dims.end());
    response.header.add_versions(reading.version);
    counted.slices += 1;
    counted.bytes += shard->num_bytes();
    counted.traffic.push_back({shard->layout().slice_id, shard->num_bytes()});
    std::move(reading.bytes.begin(), reading.bytes.end(), std::back_inserter(response.payload));
  }
  if (!row_shards.empty()) {
    counted.slices += row_shards.size();
    counted.bytes += AnswerRows(row_ids, row_shards, response);
    for (size_t i = 0; i < row_shards.size(); ++i) {
      const SliceLayout& layout = row_shards[i]->layout();
      const size_t row_bytes = layout.row_width() * ElementSize(layout.dtype);
      counted.traffic.push_back({layout.slice_id, row_ids[i].size() * row_bytes});
    }
  }
  stats_.AddPull(counted);
  return response;
}

absl::StatusOr<Envelope<proto::AssignResponse>> PsService::Assign(
    const Envelope<proto::AssignRequest>& request) {
  const proto::AssignRequest& header = request.header;
  ASSIGN_OR_RETURN(const std::vector<VariableShard*> shards, store_.Find(header.slice_ids()));
  const auto admit = [&] { return task_service_->CheckEpoch(header.epoch()); };
  if (header.averages()) {
    for (const VariableShard* shard : shards) RETURN_IF_ERROR(shard->CheckHasAverage());
    for (VariableShard* shard : shards) RETURN_IF_ERROR(shard->AssignAverage(admit));
    return Envelope<proto::AssignResponse>();
  }
  for (const VariableShard* shard : shards) RETURN_IF_ERROR(CheckIsWhole(*shard));
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
  size_t expected = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const proto::TensorMeta& meta = header.tensors(static_cast<int>(i));
    RETURN_IF_ERROR(CheckTensor(meta, *shards[i], shards[i]->shape()));
    expected += shards[i]->num_bytes();
  }
  RETURN_IF_ERROR(CheckPayload(expected, PayloadBytes(request.payload)));
  PayloadCursor cursor(request.payload);
  for (VariableShard* shard : shards) RETURN_IF_ERROR(shard->Assign(cursor, admit));
  return Envelope<proto::AssignResponse>();
}

}  // namespace cohort
