// SaveShard, RestoreShard and GetStats.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "ps_server/checkpoint_io.h"
#include "ps_server/ps_service.h"

namespace cohort {

namespace {
constexpr int kShardsMax = 100000;  // data shards are numbered with five digits
}

absl::StatusOr<Envelope<proto::SaveShardResponse>> PsService::SaveShard(
    const Envelope<proto::SaveShardRequest>& request) {
  const proto::SaveShardRequest& header = request.header;
  RETURN_IF_ERROR(task_service_->CheckEpoch(header.epoch()));
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
  ASSIGN_OR_RETURN(std::vector<proto::SavedSlice> saved,
                   SaveShards(world_.files, {header.prefix(), header.shard(), header.num_shards()},
                              store_.All(), extras));
  Log(LogLevel::kInfo, "shard_saved", {{"prefix", header.prefix()}, {"tensors", saved.size()}});
  Envelope<proto::SaveShardResponse> response;
  for (proto::SavedSlice& slice : saved) *response.header.add_slices() = std::move(slice);
  return response;
}

absl::StatusOr<Envelope<proto::RestoreShardResponse>> PsService::RestoreShard(
    const Envelope<proto::RestoreShardRequest>& request) {
  const proto::RestoreShardRequest& header = request.header;
  if (header.prefix().empty()) {
    return absl::InvalidArgumentError("RestoreShardRequest.prefix is empty");
  }
  ASSIGN_OR_RETURN(const uint32_t restored,
                   RestoreShards(world_.files, {header.prefix(), header.slots()}, store_.All(),
                                 [&] { return task_service_->CheckEpoch(header.epoch()); }));
  Log(LogLevel::kInfo, "shard_restored", {{"prefix", header.prefix()}, {"tensors", restored}});
  Envelope<proto::RestoreShardResponse> response;
  response.header.set_restored_tensors(restored);
  return response;
}

absl::StatusOr<Envelope<proto::PsStatsResponse>> PsService::GetStats(
    const Envelope<proto::PsStatsRequest>& request) {
  Envelope<proto::PsStatsResponse> response;
  stats_.FillIn(response.header);
  response.header.set_apply_log_entries(apply_log_->size());
  size_t resident = 0;
  for (const VariableShard* shard : store_.All()) resident += shard->resident_bytes();
  response.header.set_resident_bytes(resident);
  return response;
}

}  // namespace cohort
