// The call Pull, which reads whole slices and single rows.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/kernel/half_floats.h"
#include "ps_server/service/half_payload.h"
#include "ps_server/service/ps_service.h"
#include "ps_server/service/request_check.h"

namespace cohort {

namespace {

absl::Status Bad(const VariableSlice& shard, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("PullRequest.rows of ", shard.layout().ToString(), ": ", what));
}

size_t RowBytes(const VariableSlice& shard) {
  return shard.layout().row_width() * ElementSize(shard.layout().dtype);
}

absl::Status CheckIds(const VariableSlice& shard, absl::Span<const int64_t> ids) {
  for (const int64_t id : ids) {
    if (!shard.layout().Holds(id)) return Bad(shard, shard.layout().WhyOutside(id));
  }
  return absl::OkStatus();
}

// Returns for each element of `request.rows` the row ids that it asks for. `shards` are the slices
// of these elements, in the same order. Errors: INVALID_ARGUMENT that names a slice whose ids are
// not int64[n] or lie outside the slice, or whose rows make the answer too large; INVALID_ARGUMENT
// if the payload's size is not that of the ids.
absl::StatusOr<std::vector<std::vector<int64_t>>> ReadRowIds(
    const Envelope<proto::PullRequest>& request, absl::Span<VariableSlice* const> shards) {
  std::vector<std::vector<int64_t>> ids;
  // The ids for all slices lie one after another in the payload.
  PayloadReader reader(request.payload);
  size_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const proto::TensorMeta& meta = request.header.rows(static_cast<int>(i)).ids();
    if (meta.dtype() != static_cast<int32_t>(DType::kInt64) || meta.dims_size() != 1) {
      return Bad(*shards[i], "ids must be int64[n]");
    }
    ASSIGN_OR_RETURN(const Tensor tensor, reader.ReadTensor(meta));
    const absl::Span<const int64_t> span = tensor.span<int64_t>();
    RETURN_IF_ERROR(CheckIds(*shards[i], span));
    // The limit is checked after each slice, so that the sum in `bytes` cannot overflow.
    bytes += span.size() * RowBytes(*shards[i]);
    if (bytes > kTensorBytesMax) {
      return Bad(*shards[i], absl::StrCat("the answer would be more than ", kTensorBytesMax,
                                          " bytes; use smaller batches"));
    }
    ids.emplace_back(span.begin(), span.end());
  }
  if (reader.remaining() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("PullRequest has ", reader.remaining(), " bytes after its ids"));
  }
  return ids;
}

// Returns the type in which a slice's values are sent to a pull that asks for the type `asked`
// (PullRequest.value_dtype). A variable that no optimizer trains (update rule assign_add), such as
// a moving average, is always sent in its own type: steps read the variable and assign a new value
// to it. If each read were rounded to 16 bits, changes smaller than the last digit would be lost
// and the variable would stop changing.
DType TravelDType(const SliceLayout& layout, DType asked) {
  const bool narrows = layout.dtype == DType::kFloat32 && IsHalf(asked);
  return narrows && layout.rule.op() != "assign_add" ? asked : layout.dtype;
}

// How a pull reads rows: for a step of which synchronous round, and in which type.
struct RowsRead {
  RoundRead round;
  // PullRequest.value_dtype; kUndefined sends each slice in its own type.
  DType asked = DType::kUndefined;
};

// Adds the rows `ids` of each slice to the response, in one buffer. The rows have the content that
// a step of `read.round` reads and the type that TravelDType returns. Returns the number of bytes
// of the rows.
size_t AnswerRows(absl::Span<const std::vector<int64_t>> ids,
                  absl::Span<VariableSlice* const> shards, const RowsRead& read,
                  Envelope<proto::PullResponse>& response) {
  const auto& [round, asked] = read;
  const auto elements = [&](size_t i) { return ids[i].size() * shards[i]->layout().row_width(); };
  size_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    bytes += elements(i) * ElementSize(TravelDType(shards[i]->layout(), asked));
  }
  // All rows go into one buffer, because sending many small buffers would be slower.
  const std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes);
  std::byte* out = buffer->data();
  std::vector<float> floats;
  for (size_t i = 0; i < shards.size(); ++i) {
    const SliceLayout& layout = shards[i]->layout();
    const DType dtype = TravelDType(layout, asked);
    const size_t size = elements(i) * ElementSize(dtype);
    if (dtype == layout.dtype) {
      response.header.add_versions(shards[i]->ReadRowsFor(round, ids[i], {out, size}));
    } else {
      // Rows are copied as float32 under the slice's lock and converted to 16 bits after the lock
      // is released.
      floats.resize(elements(i));
      const ByteSlice wide = {nullptr, reinterpret_cast<std::byte*>(floats.data()),
                              floats.size() * sizeof(float)};
      response.header.add_versions(shards[i]->ReadRowsFor(
          round, ids[i], absl::MakeSpan(reinterpret_cast<std::byte*>(floats.data()), wide.size)));
      const ByteSlice narrow = NarrowPayload({wide}, dtype);
      if (size > 0) std::memcpy(out, narrow.data, size);
    }
    out += size;
    proto::TensorMeta& meta = *response.header.add_tensors();
    meta.set_dtype(static_cast<int32_t>(dtype));
    const absl::Span<const int64_t> dims = shards[i]->shape().dims();
    meta.mutable_dims()->Add(dims.begin(), dims.end());
    if (!dims.empty()) meta.set_dims(0, static_cast<int64_t>(ids[i].size()));
  }
  if (bytes > 0) response.payload.push_back(ByteSlice{buffer, buffer->data(), bytes});
  return bytes;
}

// Makes the last memory slice of the payload own `room`, so that the answer counts in the send
// budget until all of it has been sent.
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
  // AnswerBytes() returns 0 for a bad request instead of an error, because Pull() finds and reports
  // the error.
  const absl::StatusOr<std::vector<VariableSlice*>> shards = store.Find(request.slice_ids());
  const absl::StatusOr<std::vector<VariableSlice*>> row_shards = store.Find(RowSlicesOf(request));
  if (!shards.ok() || !row_shards.ok()) return 0;
  if (!request.slot().empty()) return SlotBytes(*shards, request.slot());
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
    // The comparison divides the limit instead of multiplying the number of rows, because this
    // number comes from a peer and the product could overflow.
    if (rows > kTensorBytesMax / std::max<size_t>(row_bytes, 1)) return 0;
    bytes += rows * row_bytes;
  }
  return bytes;
}

void PsService::PullWithRoom(Envelope<proto::PullRequest> request,
                             TypedReply<proto::PullResponse> reply) {
  const size_t bytes = AnswerBytes(request.header);
  // A small answer is sent without waiting for room in the send budget. The answer's bytes are
  // counted all the same, so large answers wait until these bytes are sent.
  ByteBudget::Room room =
      bytes <= kInlineBytesMax ? send_budget_->Take(bytes) : send_budget_->TryTake(bytes);
  const bool at_once = room != nullptr && PayloadBytes(request.payload) <= kInlineBytesMax;
  if (at_once) return reply(PullHolding(request, std::move(room)));
  auto pull = [self = shared_from_this(), request = std::move(request),
               reply = std::move(reply)](ByteBudget::Room granted) mutable {
    // The epoch is checked again, since a new epoch may have begun while the pull waited for room
    // in the send budget.
    const absl::Status epoch = self->task_service_->CheckEpoch(request.header.epoch());
    reply(epoch.ok() ? self->PullHolding(request, std::move(granted)) : epoch);
  };
  // When the send budget gets room, the thread that has just finished sending another answer runs
  // this callback. So the callback only moves the pull to the executor.
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
  if (!request.header.slot().empty()) return PullSlots(request.header, shards);
  ASSIGN_OR_RETURN(const std::vector<VariableSlice*> row_shards,
                   contents->store.Find(RowSlicesOf(request.header)));
  ASSIGN_OR_RETURN(const auto row_ids, ReadRowIds(request, row_shards));
  const auto asked = static_cast<DType>(request.header.value_dtype());
  if (asked != DType::kUndefined && !IsHalf(asked)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PullRequest.value_dtype is ", request.header.value_dtype(), "; float16, bfloat16 or 0"));
  }
  RoundRead round{request.header.round(), 0};
  // Each coordinator counts its own rounds, so a round number is compared together with the
  // coordinator's incarnation.
  if (round.round != 0) {
    ASSIGN_OR_RETURN(const ClosureWindow window, push_gate_->Window(request.header.epoch()));
    round.coordinator = window.coordinator_incarnation;
  }
  Envelope<proto::PullResponse> response;
  // Each slice is read under its own lock, so the slices of one pull may have different versions.
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
    // NarrowPayload makes a copy, so the lease on the slice's pages can end here.
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
