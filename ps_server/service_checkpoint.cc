// SaveShard, RestoreShard and GetStats.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "ps_server/checkpoint_io.h"
#include "ps_server/ps_service.h"

namespace cohort {

namespace {
constexpr int kShardsMax = 100000;  // data shards are numbered with five digits
// More than run at one time: a recovery checkpoint, and one that the job asks for.
constexpr size_t kSavesRemembered = 4;
}

absl::StatusOr<Envelope<proto::SaveShardResponse>> PsService::SaveShard(
    const Envelope<proto::SaveShardRequest>& request) {
  const proto::SaveShardRequest& header = request.header;
  RETURN_IF_ERROR(task_service_->CheckEpoch(header.epoch()));
  if (saves_.epoch != header.epoch()) saves_ = {header.epoch(), {}};
  if (const auto done = saves_.answers.find(header.save()); done != saves_.answers.end()) {
    return Envelope<proto::SaveShardResponse>{done->second, {}};
  }
  if (header.save() != 0 && saves_.answers.size() == kSavesRemembered &&
      header.save() < saves_.answers.begin()->first) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat("save ", header.save(), " is older than the last ",
                                  kSavesRemembered, " of this epoch"),
                     proto::STALE);
  }
  if (header.prefix().empty()) {
    return absl::InvalidArgumentError("SaveShardRequest.prefix is empty");
  }
  if (header.shard() < 0 || header.shard() >= header.num_shards() ||
      header.num_shards() >= kShardsMax) {
    return absl::InvalidArgumentError(absl::StrCat("SaveShardRequest.shard ", header.shard(),
                                                   " of num_shards ", header.num_shards(),
                                                   " is not one of at most ", kShardsMax));
  }
  ASSIGN_OR_RETURN(const std::vector<ExtraTensor> extras, ExtrasOf(header));
  ASSIGN_OR_RETURN(
      std::vector<proto::SavedSlice> saved,
      SaveShards(world_.files, {header.prefix(), header.shard(), header.num_shards()}, store_.All(),
                 extras, [&] { return push_gate_->Window(header.epoch()); }));
  Log(LogLevel::kInfo, "shard_saved", {{"prefix", header.prefix()}, {"tensors", saved.size()}});
  Envelope<proto::SaveShardResponse> response;
  for (proto::SavedSlice& slice : saved) *response.header.add_slices() = std::move(slice);
  if (header.save() != 0) saves_.answers[header.save()] = response.header;
  if (saves_.answers.size() > kSavesRemembered) saves_.answers.erase(saves_.answers.begin());
  return response;
}

absl::StatusOr<Envelope<proto::RestoreShardResponse>> PsService::RestoreShard(
    const Envelope<proto::RestoreShardRequest>& request) {
  const proto::RestoreShardRequest& header = request.header;
  if (header.prefix().empty() && !header.applied()) {
    return absl::InvalidArgumentError("RestoreShardRequest.prefix is empty");
  }
  Envelope<proto::RestoreShardResponse> response;
  if (header.applied() && restored_cut_.epoch == header.epoch()) {
    const bool same =
        restored_cut_.prefix == header.prefix() && restored_cut_.watermark == header.watermark();
    if (!same) {
      return absl::FailedPreconditionError(absl::StrCat("cut '", restored_cut_.prefix,
                                                        "' was restored in epoch ", header.epoch(),
                                                        "; another one needs a new epoch"));
    }
    response.header.set_restored_tensors(restored_cut_.tensors);
    return response;
  }
  ASSIGN_OR_RETURN(const uint32_t restored, LoadAndRestore(header));
  if (header.applied()) {
    restored_cut_ = {header.epoch(), header.prefix(), header.watermark(), restored};
  }
  Log(LogLevel::kInfo, "shard_restored",
      {{"prefix", header.prefix()}, {"tensors", restored}, {"cut", header.applied()}});
  response.header.set_restored_tensors(restored);
  return response;
}

absl::StatusOr<uint32_t> PsService::LoadAndRestore(const proto::RestoreShardRequest& request) {
  const std::vector<VariableShard*> shards = store_.All();
  const RestoreSource source = {request.prefix(), request.slots(), request.applied()};
  ASSIGN_OR_RETURN(const LoadedShards loaded, source.prefix.empty()
                                                  ? InitialShards(shards)
                                                  : LoadShards(world_.files, source, shards));
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
  stats_.FillIn(response.header);
  size_t resident = 0;
  size_t intervals = 0;
  for (VariableShard* shard : store_.All()) {
    resident += shard->resident_bytes();
    ASSIGN_OR_RETURN(const size_t held,
                     shard->Settle([&] { return push_gate_->Window(request.header.epoch()); }));
    intervals += held;
  }
  response.header.set_resident_bytes(resident);
  response.header.set_apply_log_entries(intervals);
  return response;
}

}  // namespace cohort
