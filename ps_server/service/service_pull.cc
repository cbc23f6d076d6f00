// The call Pull.

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/kernel/half_floats.h"
#include "ps_server/service/half_payload.h"
#include "ps_server/service/ps_service.h"
#include "ps_server/service/pull_rows.h"
#include "ps_server/service/request_check.h"

namespace cohort {

namespace {

// Keeps the room in the send budget until the payload's last slice, and so all of it, has been
// sent.
void HoldUntilSent(ByteBudget::Room room, Payload& payload) {
  if (room == nullptr || payload.empty()) return;
  struct Held {
    std::shared_ptr<const void> bytes;
    ByteBudget::Room room;
  };
  std::shared_ptr<const void>& owner = payload.back().owner;
  owner = std::make_shared<const Held>(Held{std::move(owner), std::move(room)});
}

std::vector<uint32_t> RowSlicesOf(const proto::PullRequest& request) {
  std::vector<uint32_t> ids;
  for (const proto::PullRows& rows : request.rows()) ids.push_back(rows.slice_id());
  return ids;
}

}  // namespace

size_t PsService::AnswerBytes(const proto::PullRequest& request) const {
  const std::shared_ptr<Contents> contents = this->contents();
  const VariableStore& store = contents->store;
  // AnswerBytes() refuses no request, because Pull() finds the same errors and reports them.
  const absl::StatusOr<std::vector<VariableSlice*>> shards = store.Find(request.slice_ids());
  const absl::StatusOr<std::vector<VariableSlice*>> row_shards = store.Find(RowSlicesOf(request));
  if (!shards.ok() || !row_shards.ok()) return 0;
  const auto asked = static_cast<DType>(request.value_dtype());
  const auto element_bytes = [&](const VariableSlice& shard) {
    return ElementSize(TravelDType(shard.layout(), asked));
  };
  size_t bytes = 0;
  for (const VariableSlice* shard : *shards) {
    bytes += static_cast<size_t>(shard->shape().num_elements()) * element_bytes(*shard);
  }
  for (size_t i = 0; i < row_shards->size(); ++i) {
    const absl::StatusOr<size_t> ids = BytesOf(request.rows(static_cast<int>(i)).ids());
    if (!ids.ok()) return 0;
    const VariableSlice& shard = *(*row_shards)[i];
    const size_t row_bytes = shard.layout().row_width() * element_bytes(shard);
    const size_t rows = *ids / sizeof(int64_t);
    // Divides instead of multiplying, because the number of rows comes from a peer.
    if (rows > kTensorBytesMax / std::max<size_t>(row_bytes, 1)) return 0;
    bytes += rows * row_bytes;
  }
  return bytes;
}

void PsService::PullWithRoom(Envelope<proto::PullRequest> request,
                             TypedReply<proto::PullResponse> reply) {
  const size_t bytes = AnswerBytes(request.header);
  // A small answer is sent at once. Its bytes count in the budget, so large answers wait for it.
  ByteBudget::Room room =
      bytes <= kInlineBytesMax ? send_budget_->Take(bytes) : send_budget_->TryTake(bytes);
  const bool at_once = room != nullptr && PayloadBytes(request.payload) <= kInlineBytesMax;
  if (at_once) return reply(PullHolding(request, std::move(room)));
  auto pull = [self = shared_from_this(), request = std::move(request),
               reply = std::move(reply)](ByteBudget::Room granted) mutable {
    // The epoch is checked again, since it may have ended while the pull waited for room.
    const absl::Status epoch = self->task_service_->CheckEpoch(request.header.epoch());
    reply(epoch.ok() ? self->PullHolding(request, std::move(granted)) : epoch);
  };
  // Room may become free on the thread that has sent another answer, so the pull continues on the
  // executor.
  auto run = [self = shared_from_this(), pull = std::move(pull)](ByteBudget::Room granted) mutable {
    self->world_.executor.Run([pull = std::move(pull), granted = std::move(granted)]() mutable {
      pull(std::move(granted));
    });
  };
  if (room != nullptr) return run(std::move(room));
  send_budget_->Ask(bytes, std::move(run));
}

absl::StatusOr<Envelope<proto::PullResponse>> PsService::PullHolding(
    const Envelope<proto::PullRequest>& request, ByteBudget::Room room) {
  Answer<proto::PullResponse> answer = Pull(request);
  if (answer.ok()) HoldUntilSent(std::move(room), answer->payload);
  return answer;
}

absl::StatusOr<Envelope<proto::PullResponse>> PsService::Pull(
    const Envelope<proto::PullRequest>& request) {
  const std::shared_ptr<Contents> contents = this->contents();
  ASSIGN_OR_RETURN(const std::vector<VariableSlice*> shards,
                   contents->store.Find(request.header.slice_ids()));
  for (const VariableSlice* shard : shards) RETURN_IF_ERROR(CheckIsWhole(*shard));
  ASSIGN_OR_RETURN(const std::vector<VariableSlice*> row_shards,
                   contents->store.Find(RowSlicesOf(request.header)));
  ASSIGN_OR_RETURN(const auto row_ids, ReadRowIds(request, row_shards));
  const auto asked = static_cast<DType>(request.header.value_dtype());
  if (asked != DType::kUndefined && !IsHalf(asked)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PullRequest.value_dtype is ", request.header.value_dtype(), "; float16, bfloat16 or 0"));
  }
  RoundRead round{request.header.round(), 0};
  // Rounds are counted by one coordinator, so the round is read together with its incarnation.
  if (round.round != 0) {
    ASSIGN_OR_RETURN(const ClosureWindow window, push_gate_->Window(request.header.epoch()));
    round.coordinator = window.coordinator_incarnation;
  }
  Envelope<proto::PullResponse> response;
  // Each slice is read under its own lock only, so the slices of one pull may have different
  // versions.
  response.payload.reserve(shards.size() + 1);
  PsStats::Pull counted;
  for (const VariableSlice* shard : shards) {
    VariableSlice::Reading reading = shard->ReadFor(round);
    proto::TensorMeta& meta = *response.header.add_tensors();
    const DType dtype = TravelDType(shard->layout(), asked);
    meta.set_dtype(static_cast<int32_t>(dtype));
    const absl::Span<const int64_t> dims = shard->shape().dims();
    meta.mutable_dims()->Add(dims.begin(), dims.end());
    response.header.add_versions(reading.version);
    // Narrowing makes a copy and so ends the lease on the slice's pages.
    if (dtype != shard->layout().dtype) reading.bytes = {NarrowPayload(reading.bytes, dtype)};
    const size_t bytes = PayloadBytes(reading.bytes);
    counted.slices += 1;
    counted.bytes += bytes;
    counted.traffic.push_back({shard->layout().slice_id, bytes});
    std::move(reading.bytes.begin(), reading.bytes.end(), std::back_inserter(response.payload));
  }
  if (!row_shards.empty()) {
    counted.slices += row_shards.size();
    counted.bytes += AnswerRows(row_ids, row_shards, {round, asked}, response);
    for (size_t i = 0; i < row_shards.size(); ++i) {
      const SliceLayout& layout = row_shards[i]->layout();
      const size_t row_bytes = layout.row_width() * ElementSize(TravelDType(layout, asked));
      counted.traffic.push_back({layout.slice_id, row_ids[i].size() * row_bytes});
    }
  }
  contents->stats.AddPull(counted);
  return response;
}

}  // namespace cohort
