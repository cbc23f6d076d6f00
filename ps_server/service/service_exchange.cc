// The calls ReadShard, ReleaseShard, StageRestore and WriteStaged, by which bytes of checkpoints
// are exchanged with a coordinator whose checkpoint directory this home cannot access, or with
// another home that copies slices; and ProbeDirectory, which asks whether this home can access a
// directory. Also drops checkpoint shards and staged restores that no call uses any more.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/frame_limits.h"
#include "common/wire/message.h"
#include "ps_server/checkpoint/checkpoint_io.h"
#include "ps_server/service/ps_service.h"

namespace cohort {

namespace {

// Returns the checkpoint's tensors that a request lists, with their types and shapes. Refuses
// unknown types, and shapes that are negative or too large.
absl::StatusOr<BundleTensors> TensorsOf(const proto::StageRestoreRequest& request) {
  BundleTensors tensors;
  for (const proto::StoredTensorInfo& info : request.tensors()) {
    proto::TensorMeta meta;
    meta.set_dtype(info.dtype());
    *meta.mutable_dims() = info.dims();
    const absl::StatusOr<size_t> bytes = BytesOf(meta);
    if (!bytes.ok()) {
      return Annotate(bytes.status(),
                      absl::StrCat("StageRestoreRequest.tensors '", info.name(), "'"));
    }
    const Shape shape(
        absl::MakeConstSpan(info.dims().data(), static_cast<size_t>(info.dims_size())));
    tensors[info.name()] = {static_cast<DType>(info.dtype()), shape};
  }
  return tensors;
}

// Returns whether the file at `path` has exactly the content `token`. The size is compared before
// the file is read, because another file at this path may be of any size.
bool Holds(FileSystem& files, const std::string& path, const std::string& token) {
  const auto file = files.Open(path);
  if (!file.ok() || (*file)->size() != token.size()) return false;
  std::string held(token.size(), '\0');
  return (*file)->Read(0, absl::MakeSpan(held.data(), held.size())).ok() && held == token;
}

}  // namespace

absl::Status PsService::EnterEpoch(uint64_t epoch) {
  RETURN_IF_ERROR(task_service_->CheckEpoch(epoch));
  held_.EnterEpoch(epoch);
  staging_.EnterEpoch(epoch);
  return absl::OkStatus();
}

void PsService::WatchIdle() {
  // One timer is enough, because it is set for the earliest time at which a shard or a staged
  // restore can be dropped.
  if (watches_idle_) return;
  const absl::Time now = world_.clock.Now();
  const absl::Time next = std::min(held_.DropIdle(now), staging_.DropIdle(now));
  if (next == absl::InfiniteFuture()) return;
  watches_idle_ = true;
  // The timer has only a weak pointer, so it does not keep the PsService alive.
  world_.clock.CallAt(next, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->strand_.Post([self] {
      self->watches_idle_ = false;
      self->WatchIdle();
    });
  });
}

absl::StatusOr<Envelope<proto::ReadShardResponse>> PsService::ReadShard(
    const Envelope<proto::ReadShardRequest>& request) {
  const proto::ReadShardRequest& header = request.header;
  RETURN_IF_ERROR(task_service_->CheckEpoch(header.epoch()));
  ASSIGN_OR_RETURN(const std::shared_ptr<const HeldShard> shard,
                   held_.Find({header.epoch(), header.save()}, world_.clock.Now()));
  if (header.offset() >= shard->size() || header.max_bytes() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("bytes ", header.offset(), "+",
                                                   header.max_bytes(), " of a shard that has ",
                                                   shard->size()));
  }
  Envelope<proto::ReadShardResponse> response;
  // The chunk in the answer refers to the shard's memory without a copy. The chunk's checksum lets
  // the reader notice damage.
  response.payload =
      shard->Read(header.offset(), std::min<uint64_t>(header.max_bytes(), kShardChunkBytesMax));
  response.header.set_crc32c(PayloadCrc32c(response.payload));
  return response;
}

absl::StatusOr<Envelope<proto::ReleaseShardResponse>> PsService::ReleaseShard(
    const Envelope<proto::ReleaseShardRequest>& request) {
  held_.Release({request.header.epoch(), request.header.save()});
  return Envelope<proto::ReleaseShardResponse>();
}

absl::StatusOr<Envelope<proto::StageRestoreResponse>> PsService::StageRestore(
    const Envelope<proto::StageRestoreRequest>& request) {
  const proto::StageRestoreRequest& header = request.header;
  RETURN_IF_ERROR(EnterEpoch(header.epoch()));
  if (header.restore() == 0 || header.prefix().empty()) {
    return absl::InvalidArgumentError("StageRestoreRequest needs a number and a prefix");
  }
  ASSIGN_OR_RETURN(StagedRestore * staged, staging_.FindOrRefuse(header.restore()));
  if (staged == nullptr) {
    ASSIGN_OR_RETURN(const BundleTensors tensors, TensorsOf(header));
    StagedRestore::Plan plan;
    plan.source = {header.prefix(), header.slots(), header.applied(), header.new_slots()};
    // The plan has pointers to slices. ContentsOfHolder drops the staged restore, and so the plan,
    // before it drops the slices.
    plan.shards = contents()->store.All();
    ASSIGN_OR_RETURN(plan.wanted, PlanRestore(tensors, plan.source, plan.shards));
    staged = staging_.Stage(header.restore(), std::move(plan), world_.clock.Now());
    WatchIdle();
  }
  return Envelope<proto::StageRestoreResponse>{staged->Describe(), {}};
}

absl::StatusOr<Envelope<proto::WriteStagedResponse>> PsService::WriteStaged(
    const Envelope<proto::WriteStagedRequest>& request) {
  const proto::WriteStagedRequest& header = request.header;
  RETURN_IF_ERROR(EnterEpoch(header.epoch()));
  ASSIGN_OR_RETURN(StagedRestore * staged, staging_.Find(header.restore(), world_.clock.Now()));
  RETURN_IF_ERROR(staged->Write(header.offset(), header.crc32c(), request.payload));
  return Envelope<proto::WriteStagedResponse>();
}

absl::StatusOr<Envelope<proto::ProbeDirectoryResponse>> PsService::ProbeDirectory(
    const Envelope<proto::ProbeDirectoryRequest>& request) {
  Envelope<proto::ProbeDirectoryResponse> response;
  response.header.set_seen(Holds(world_.files, request.header.path(), request.header.token()));
  return response;
}

}  // namespace cohort
