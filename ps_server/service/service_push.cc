// The calls Push, by which workers change slices, and Fence, after which a worker's pushes are
// refused.

#include <algorithm>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/kernel/half_floats.h"
#include "common/wire/error_detail.h"
#include "ps_server/service/half_payload.h"
#include "ps_server/service/ps_service.h"

namespace cohort {

namespace {

std::vector<uint32_t> SliceIdsOf(const proto::PushRequest& push) {
  std::vector<uint32_t> ids;
  ids.reserve(static_cast<size_t>(push.slices_size()));
  for (const proto::PushSlice& slice : push.slices()) ids.push_back(slice.slice_id());
  return ids;
}

PushTicket TicketOf(const proto::PushRequest& push) {
  return {push.epoch(), push.closure_id(), push.worker_incarnation(), push.watermark()};
}

// Adds to an error's detail the closure and the attempt that the push belongs to, so that the
// coordinator knows which closure's attempt failed.
absl::Status WithClosure(const absl::Status& status, const proto::PushRequest& push) {
  proto::ErrorDetail detail = DetailOf(status);
  detail.set_closure_id(push.closure_id());
  detail.set_attempt(push.attempt());
  return WithDetail(status, detail);
}

// Reads the next slice's gradient from the cursor and returns it as float32 for all elements, if it
// was sent in 16 bits or only for some positions. Reads nothing and returns an empty payload if the
// gradient needs no conversion.
Payload Widened(const VariableSlice& shard, const PushedRows& pushed, PayloadCursor& cursor) {
  const auto elements = static_cast<size_t>(shard.shape().num_elements());
  if (pushed.has_positions) {
    return ScatterNext(cursor, pushed.positions, pushed.dtype, elements);
  }
  if (!IsHalf(pushed.dtype)) return {};
  const size_t count = pushed.all ? elements : pushed.ids.size() * shard.layout().row_width();
  return count == 0 ? Payload() : WidenNext(cursor, count, pushed.dtype);
}

}  // namespace

absl::StatusOr<Envelope<proto::PushResponse>> PsService::Push(
    const Envelope<proto::PushRequest>& request) {
  Answer<proto::PushResponse> answer = CheckAndApply(request);
  if (answer.ok()) return answer;
  if (ClassOf(answer.status()) == proto::STALE) contents()->stats.AddRefusedPush();
  return WithClosure(answer.status(), request.header);
}

absl::StatusOr<Envelope<proto::PushResponse>> PsService::CheckAndApply(
    const Envelope<proto::PushRequest>& request) {
  const std::vector<uint32_t> ids = SliceIdsOf(request.header);
  const std::shared_ptr<Contents> contents = this->contents();
  ASSIGN_OR_RETURN(const std::vector<VariableSlice*> shards, contents->store.Find(ids));
  // The whole push is checked before Admit, because Admit raises the watermark, which a bad request
  // must not do.
  ASSIGN_OR_RETURN(const std::vector<PushedRows> rows, CheckPush(request, shards));
  RETURN_IF_ERROR(push_gate_->Admit(TicketOf(request.header)));
  return Apply(request, shards, rows, contents->stats);
}

absl::StatusOr<Envelope<proto::PushResponse>> PsService::Apply(
    const Envelope<proto::PushRequest>& request, absl::Span<VariableSlice* const> shards,
    absl::Span<const PushedRows> rows, PsStats& stats) {
  const proto::PushRequest& push = request.header;
  const PushTicket ticket = TicketOf(push);
  SlicePush context = {push.learning_rate(), push.step(), push.closure_id(), push.round(),
                       push.aggregate()};
  context.time_ms = push.time_ms();
  PayloadCursor cursor(request.payload);
  Envelope<proto::PushResponse> response;
  uint32_t taken = 0;
  uint32_t open_rounds = 0;
  PsStats::Push counted;
  counted.bytes = PayloadBytes(request.payload);
  for (size_t i = 0; i < shards.size(); ++i) {
    const proto::PushSlice& slice = push.slices(static_cast<int>(i));
    // The gate checks the push again under each slice's lock, because the worker may have been
    // fenced after Admit.
    const auto gate = [&] { return push_gate_->Check(ticket); };
    context.assign = slice.assign();
    cursor.Skip(rows[i].index_bytes());
    // A gradient that needs conversion is converted into a copy, one slice at a time.
    const Payload widened = Widened(*shards[i], rows[i], cursor);
    PayloadCursor own(widened);
    PayloadCursor& gradient = widened.empty() ? cursor : own;
    ASSIGN_OR_RETURN(const AppliedPush applied,
                     rows[i].all ? shards[i]->Apply(gradient, context, gate)
                                 : shards[i]->ApplyRows(rows[i].ids, gradient, context, gate));
    if (applied.kept) ++open_rounds;
    // If a push is repeated, some slices may have applied it already and others not. Each slice
    // decides for itself whether the push is a duplicate.
    if (applied.duplicate || applied.dropped) {
      ++(applied.duplicate ? counted.duplicates : counted.dropped);
      continue;
    }
    ++taken;
    if (rows[i].has_positions) response.header.add_taken(slice.slice_id());
    counted.traffic.push_back({slice.slice_id(), BytesOf(slice.tensor()).value_or(0)});
    if (applied.kept) continue;
    // The version that the worker pulled can be higher than the present one if this home has
    // restarted since the pull. The staleness then counts as 0.
    const uint64_t pulled = std::min(slice.pulled_version(), applied.version_before);
    counted.staleness.push_back(applied.version_before - pulled);
  }
  stats.AddPush(counted);
  response.header.set_applied(taken);
  response.header.set_duplicates(static_cast<uint32_t>(counted.duplicates));
  response.header.set_dropped(static_cast<uint32_t>(counted.dropped));
  response.header.set_open_rounds(open_rounds);
  return response;
}

absl::StatusOr<Envelope<proto::FenceResponse>> PsService::Fence(
    const Envelope<proto::FenceRequest>& request) {
  const proto::FenceRequest& header = request.header;
  RETURN_IF_ERROR(
      push_gate_->Fence({header.epoch(), header.worker_incarnations(), header.watermark()}));
  // A push that the gate admitted before the fence may be changing a slice now. Settle waits for
  // the slice's lock, so such a push is complete before the Fence call is answered.
  const std::shared_ptr<Contents> contents = this->contents();
  for (VariableSlice* shard : contents->store.All()) {
    const auto gate = [&] { return push_gate_->Window(header.epoch()); };
    RETURN_IF_ERROR(shard->Settle(gate).status());
  }
  return Envelope<proto::FenceResponse>();
}

}  // namespace cohort
