// The calls HoldShard, WriteShard and RestoreShard, which save a home's slices to a checkpoint and
// restore them, and GetStats.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "ps_server/checkpoint/checkpoint_io.h"
#include "ps_server/service/ps_service.h"

namespace cohort {

namespace {

void FillIn(const ByteBudget& budget, proto::BufferStats& stats) {
  const ByteBudget::Stats now = budget.stats();
  stats.set_held_bytes(now.held);
  stats.set_held_bytes_max(now.held_max);
  stats.set_waiting_bytes(now.waiting);
  stats.set_waits(now.waits);
  stats.set_limit_bytes(budget.bytes_max());
}

constexpr int kShardsMax = 100000;  // a data shard's number has five digits in the name of its file

absl::Status CheckHoldRequest(const proto::HoldShardRequest& request) {
  if (request.prefix().empty() || request.save() == 0) {
    return absl::InvalidArgumentError("HoldShardRequest needs a prefix and a number of the save");
  }
  if (request.shard() < 0 || request.shard() >= request.num_shards() ||
      request.num_shards() >= kShardsMax) {
    return absl::InvalidArgumentError(absl::StrCat("HoldShardRequest.shard ", request.shard(),
                                                   " of num_shards ", request.num_shards(),
                                                   " is not one of fewer than ", kShardsMax));
  }
  return absl::OkStatus();
}

// Returns the slices that are saved in data shard number `shard` of a checkpoint. The first data
// shard has all slices of its home. The other data shards have no mirrored slices: every home has a
// copy of a mirrored slice, and saving one copy is enough.
std::vector<VariableSlice*> SavedIn(int shard, std::vector<VariableSlice*> slices) {
  if (shard == 0) return slices;
  slices.erase(std::remove_if(slices.begin(), slices.end(),
                              [](const VariableSlice* slice) { return slice->layout().mirrored; }),
               slices.end());
  return slices;
}

void AddTableUse(const RowTableUse& use, proto::DynamicTableUse& sum) {
  sum.set_rows(sum.rows() + use.rows);
  sum.set_bytes(sum.bytes() + use.row_bytes + use.index_bytes);
  sum.set_not_admitted(sum.not_admitted() + use.counts.dropped);
  sum.set_expired_rows(sum.expired_rows() + use.counts.expired);
  sum.set_evicted_rows(sum.evicted_rows() + use.counts.evicted);
}

}  // namespace

absl::StatusOr<Envelope<proto::HoldShardResponse>> PsService::HoldShard(
    const Envelope<proto::HoldShardRequest>& request) {
  const proto::HoldShardRequest& header = request.header;
  RETURN_IF_ERROR(task_service_->CheckEpoch(header.epoch()));
  RETURN_IF_ERROR(CheckHoldRequest(header));
  const HeldShards::SaveId id = {header.epoch(), header.save()};
  ASSIGN_OR_RETURN(std::shared_ptr<const HeldShard> shard, held_.FindOrRefuse(id, header.prefix()));
  if (shard == nullptr) {
    ASSIGN_OR_RETURN(const std::vector<ExtraTensor> extras, ExtrasOf(header));
    const std::shared_ptr<Contents> contents = this->contents();
    ASSIGN_OR_RETURN(std::shared_ptr<HeldShard> made,
                     HoldShards({header.prefix(), header.shard(), header.num_shards()},
                                SavedIn(header.shard(), contents->store.All()), extras,
                                [&] { return push_gate_->Window(header.epoch()); }));
    ASSIGN_OR_RETURN(shard, held_.Hold(id, std::move(made), world_.clock.Now()));
    WatchIdle();
  }
  Envelope<proto::HoldShardResponse> response;
  *response.header.mutable_slices() = {shard->layout().begin(), shard->layout().end()};
  response.header.set_incarnation(task_service_->task_ref().incarnation());
  return response;
}

absl::StatusOr<Envelope<proto::WriteShardResponse>> PsService::WriteShard(
    const Envelope<proto::WriteShardRequest>& request) {
  const HeldShards::SaveId id = {request.header.epoch(), request.header.save()};
  RETURN_IF_ERROR(task_service_->CheckEpoch(id.epoch));
  Envelope<proto::WriteShardResponse> response;
  // A repeated WriteShard call gets the answer of the first call, and the shard's file is not
  // written again.
  if (auto written = held_.FindWritten(id); written.has_value()) {
    response.header = *std::move(written);
    return response;
  }
  // TakeToWrite removes the shard from held_, so no other call writes the shard, and no lock is
  // held during the writing.
  ASSIGN_OR_RETURN(const std::shared_ptr<HeldShard> shard, held_.TakeToWrite(id));
  ASSIGN_OR_RETURN(const std::vector<proto::SavedSlice> saved, shard->Write(world_.files));
  *response.header.mutable_slices() = {saved.begin(), saved.end()};
  held_.SetWritten(id, response.header);
  Log(LogLevel::kInfo, "shard_saved",
      {{"prefix", shard->target().prefix}, {"tensors", saved.size()}});
  return response;
}

absl::StatusOr<Envelope<proto::RestoreShardResponse>> PsService::RestoreShard(
    const Envelope<proto::RestoreShardRequest>& request) {
  const proto::RestoreShardRequest& header = request.header;
  if (header.prefix().empty() && !header.applied()) {
    return absl::InvalidArgumentError("RestoreShardRequest.prefix is empty");
  }
  Envelope<proto::RestoreShardResponse> response;
  // Only one cut is restored in an epoch. A repeated RestoreShard call changes nothing, because a
  // second restore would undo the pushes that were applied after the first.
  if (header.applied() && restored_cut_.epoch == header.epoch()) {
    const bool same =
        restored_cut_.prefix == header.prefix() && restored_cut_.watermark == header.watermark();
    // Within the epoch of a restored cut, a copy of another home's slices may still be restored,
    // from staged rows. Staged rows are used only once, so a late repetition of such a call does
    // nothing.
    const bool copied = !same && header.staged() != 0;
    if (!same && !copied) {
      return absl::FailedPreconditionError(absl::StrCat("cut '", restored_cut_.prefix,
                                                        "' was restored in epoch ", header.epoch(),
                                                        "; another one needs a new epoch"));
    }
    if (same) {
      response.header.set_restored_tensors(restored_cut_.tensors);
      return response;
    }
  }
  RETURN_IF_ERROR(EnterEpoch(header.epoch()));
  // If an earlier RestoreShard call has already used the staged rows, this call is its repetition
  // and gets the same answer.
  if (const auto ended = staging_.FindEnded(header.staged()); ended.has_value()) {
    RETURN_IF_ERROR(ended->status());
    response.header.set_restored_tensors(**ended);
    return response;
  }
  ASSIGN_OR_RETURN(const uint32_t restored, LoadAndRestore(header));
  if (header.staged() != 0) staging_.End(header.staged(), restored);
  if (header.applied()) {
    restored_cut_ = {header.epoch(), header.prefix(), header.watermark(), restored};
  }
  Log(LogLevel::kInfo, "shard_restored",
      {{"prefix", header.prefix()}, {"tensors", restored}, {"cut", header.applied()}});
  response.header.set_restored_tensors(restored);
  return response;
}

absl::StatusOr<LoadedShards> PsService::Load(const proto::RestoreShardRequest& request,
                                             absl::Span<VariableSlice* const> shards) {
  const RestoreSource source = {request.prefix(), request.slots(), request.applied(),
                                request.new_slots()};
  if (source.prefix.empty()) return InitialShards(shards);
  if (request.staged() == 0) return LoadShards(world_.files, source, shards);
  ASSIGN_OR_RETURN(StagedRestore * staged, staging_.Find(request.staged(), world_.clock.Now()));
  if (!(staged->plan().source == source)) {
    return absl::InvalidArgumentError(absl::StrCat("RestoreShardRequest.staged ", request.staged(),
                                                   " is of ", staged->plan().source.prefix,
                                                   " or of other tensors of it"));
  }
  ASSIGN_OR_RETURN(std::vector<Tensor> rows, staged->Take(shards.size()));
  const std::unique_ptr<StagedRestore> taken = staging_.Take();
  absl::StatusOr<LoadedShards> loaded =
      AssembleShards(source, shards, taken->plan().wanted, std::move(rows));
  // The staged rows are used up even if they could not be assembled. The error is recorded, so that
  // a repeated request gets the same answer.
  if (!loaded.ok()) staging_.End(request.staged(), loaded.status());
  return loaded;
}

absl::StatusOr<uint32_t> PsService::LoadAndRestore(const proto::RestoreShardRequest& request) {
  const std::shared_ptr<Contents> contents = this->contents();
  const std::vector<VariableSlice*> shards = contents->store.All();
  ASSIGN_OR_RETURN(const LoadedShards loaded, Load(request, shards));
  // The push gate's watermark is set before the slices are restored, because each slice takes the
  // watermark from the gate.
  if (request.applied()) {
    RETURN_IF_ERROR(push_gate_->RestoreWatermark(request.epoch(), request.watermark()));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    RETURN_IF_ERROR(
        shards[i]->Restore(loaded.states[i], [&] { return push_gate_->Window(request.epoch()); }));
  }
  return loaded.tensors;
}

absl::StatusOr<Envelope<proto::PsStatsResponse>> PsService::GetStats(
    const Envelope<proto::PsStatsRequest>& request) {
  Envelope<proto::PsStatsResponse> response;
  const std::shared_ptr<Contents> contents = this->contents();
  contents->stats.FillIn(response.header);
  size_t resident = 0;
  size_t intervals = 0;
  uint64_t copied = 0;
  for (VariableSlice* shard : contents->store.All()) {
    resident += shard->resident_bytes();
    copied += shard->copied_bytes();
    if (shard->layout().dynamic.has_value()) {
      AddTableUse(shard->table_use(), shard->layout().mirrored
                                          ? *response.header.mutable_mirrored_tables()
                                          : *response.header.mutable_tables());
    }
    // Settle removes closures below the watermark from the slice's applied set, and returns the
    // number of intervals that remain in the set.
    ASSIGN_OR_RETURN(const size_t held,
                     shard->Settle([&] { return push_gate_->Window(request.header.epoch()); }));
    intervals += held;
  }
  FillIn(*receive_budget_, *response.header.mutable_received());
  FillIn(*send_budget_, *response.header.mutable_sent());
  response.header.set_resident_bytes(resident);
  response.header.set_apply_log_entries(intervals);
  response.header.set_copied_bytes(copied);
  return response;
}

}  // namespace cohort
