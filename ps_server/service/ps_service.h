#pragma once

// Answers the calls of proto/ps.proto, one file per verb family (service_*.cc). Pulls of
// whole slices and what is small are answered on the transport's thread: they hold a slice's lock
// for one pass over little memory. Large pushes and assigns, and pulls of many rows, go to the
// executor. What makes, freezes or restores slices goes
// through one strand, in the order in which it was asked for; what writes or sends a frozen shard
// goes through a second one, so that no freezing waits for a disk.
//
// What is held for clients is bounded twice: the requests that are received or worked on, by the
// transport (Service::receive_budget), and the answers to pulls until they have been sent. A pull
// that waits for the second one holds its request's ids in the first; nothing waits for the first
// while it holds the second.
//
// Slices and counters are of one coordinator: another one that makes variables begins with none.
//
// Every call checks the epoch, those that change state once more at the change. Every error carries
// an ErrorDetail with this ps as origin.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/strand.h"
#include "common/task/task_service.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "proto/ps.pb.h"
#include "ps_server/checkpoint/held_shards.h"
#include "ps_server/checkpoint/staged_restore.h"
#include "ps_server/service/ps_stats.h"
#include "ps_server/service/pushed_rows.h"
#include "ps_server/slice/push_gate.h"
#include "ps_server/slice/variable_store.h"

namespace cohort {

// Payloads above this are handled on the executor. A pass over 64 KiB takes about as long as
// handing over a task.
inline constexpr size_t kInlineBytesMax = size_t{64} << 10;

// Thread-safe. Always owned by a shared_ptr: calls that are under way keep it alive.
class PsService : public std::enable_shared_from_this<PsService> {
 public:
  struct Parts {
    // Shared with the attach callback and with calls under way.
    std::shared_ptr<TaskService> task_service;
    std::shared_ptr<PushGate> push_gate;
    // Shared with calls and answers under way.
    std::shared_ptr<ByteBudget> receive_budget;
    std::shared_ptr<ByteBudget> send_budget;
  };
  PsService(World world, Parts parts, VariableStore::Options options);

  // Returns the service to listen with, which keeps this object alive.
  Service service();

 private:
  template <typename Response>
  using Answer = absl::StatusOr<Envelope<Response>>;
  template <typename Request, typename Response>
  using Method = Answer<Response> (PsService::*)(const Envelope<Request>&);
  // The place where a method runs.
  enum class Place { kTransport, kByPayloadSize, kStrand, kShardStrand };

  template <typename Request, typename Response>
  void Bind(Service& service, const char* name, Place place, Method<Request, Response> method);
  // Binds `handle`, which gets calls of the present epoch.
  template <typename Request, typename Response, typename Handle>
  void BindHandler(Service& service, const char* name, Handle handle);
  template <typename Request, typename Response>
  void Respond(Method<Request, Response> method, Envelope<Request> request,
               TypedReply<Response> reply);
  template <typename Request, typename Response>
  void Dispatch(Place place, Method<Request, Response> method, Envelope<Request> request,
                TypedReply<Response> reply);

  // Slices that one coordinator made here, and what was counted of them. A call under way keeps the
  // contents, so slices live as long as the call does.
  struct Contents {
    explicit Contents(const VariableStore::Options& options) : store(options) {}
    VariableStore store;
    PsStats stats;
    uint64_t made_by = 0;   // coordinator incarnation; 0: nobody has made anything
    uint32_t replaced = 0;  // slices of the contents before
  };
  std::shared_ptr<Contents> contents() const;
  // Returns the contents of this epoch's coordinator, new ones if another's are here. Runs on the
  // strand. Errors: STALE for an old epoch.
  absl::StatusOr<std::shared_ptr<Contents>> ContentsOfHolder(uint64_t epoch);

  Answer<proto::CreateVariablesResponse> CreateVariables(
      const Envelope<proto::CreateVariablesRequest>& request);
  // Pulls once there is room for the answer.
  void PullWithRoom(Envelope<proto::PullRequest> request, TypedReply<proto::PullResponse> reply);
  Answer<proto::PullResponse> PullHolding(const Envelope<proto::PullRequest>& request,
                                          ByteBudget::Room room);
  // Returns about how many bytes the answer will have; 0 for a pull that will be refused.
  size_t AnswerBytes(const proto::PullRequest& request) const;
  Answer<proto::PullResponse> Pull(const Envelope<proto::PullRequest>& request);
  Answer<proto::PushResponse> Push(const Envelope<proto::PushRequest>& request);
  Answer<proto::AssignResponse> Assign(const Envelope<proto::AssignRequest>& request);
  // Makes a numbered change.
  Answer<proto::AssignResponse> Change(const Envelope<proto::AssignRequest>& request,
                                       absl::Span<VariableSlice* const> shards);
  Answer<proto::HoldShardResponse> HoldShard(const Envelope<proto::HoldShardRequest>& request);
  Answer<proto::WriteShardResponse> WriteShard(const Envelope<proto::WriteShardRequest>& request);
  Answer<proto::RestoreShardResponse> RestoreShard(
      const Envelope<proto::RestoreShardRequest>& request);
  Answer<proto::ReadShardResponse> ReadShard(const Envelope<proto::ReadShardRequest>& request);
  Answer<proto::ReleaseShardResponse> ReleaseShard(
      const Envelope<proto::ReleaseShardRequest>& request);
  Answer<proto::StageRestoreResponse> StageRestore(
      const Envelope<proto::StageRestoreRequest>& request);
  Answer<proto::WriteStagedResponse> WriteStaged(
      const Envelope<proto::WriteStagedRequest>& request);
  void FetchStaged(const proto::FetchStagedRequest& request,
                   TypedReply<proto::FetchStagedResponse> reply);
  // Fetches on the strand, as do the two parts of it.
  void StartFetch(const proto::FetchStagedRequest& request,
                  TypedReply<proto::FetchStagedResponse> reply);
  Answer<proto::FetchStagedResponse> EndFetch(const proto::FetchStagedRequest& request,
                                              const Answer<proto::ReadShardResponse>& fetched);
  Answer<proto::ProbeDirectoryResponse> ProbeDirectory(
      const Envelope<proto::ProbeDirectoryRequest>& request);
  Answer<proto::FenceResponse> Fence(const Envelope<proto::FenceRequest>& request);
  Answer<proto::PsStatsResponse> GetStats(const Envelope<proto::PsStatsRequest>& request);

  Answer<proto::PushResponse> CheckAndApply(const Envelope<proto::PushRequest>& request);
  // Applies a push that the gate has admitted.
  Answer<proto::PushResponse> Apply(const Envelope<proto::PushRequest>& request,
                                    absl::Span<VariableSlice* const> shards,
                                    absl::Span<const PushedRows> rows, PsStats& stats);

  absl::StatusOr<uint32_t> LoadAndRestore(const proto::RestoreShardRequest& request);
  // Loads what LoadAndRestore brings to the slices, wherever it comes from.
  absl::StatusOr<LoadedShards> Load(const proto::RestoreShardRequest& request,
                                    absl::Span<VariableSlice* const> shards);
  // Drops what an older epoch held or staged. Errors: STALE for an old epoch.
  absl::Status EnterEpoch(uint64_t epoch);
  // Drops what is held or staged and idle, as long as there is any.
  void WatchIdle();

  // Returns the status as it leaves: with a class and this ps as origin.
  absl::Status Refusal(const absl::Status& status) const;

  World world_;
  const std::shared_ptr<TaskService> task_service_;
  const std::shared_ptr<PushGate> push_gate_;
  const std::shared_ptr<ByteBudget> receive_budget_;
  const std::shared_ptr<ByteBudget> send_budget_;
  const VariableStore::Options store_options_;
  mutable Mutex mutex_;
  std::shared_ptr<Contents> contents_ ABSL_GUARDED_BY(mutex_);  // never null
  // The cut that was restored last.
  struct RestoredCut {
    uint64_t epoch = 0;  // 0: none
    std::string prefix;
    uint64_t watermark = 0;
    uint32_t tensors = 0;
  };
  HeldShards held_;
  // Used on the strand alone.
  RestoredCut restored_cut_;
  Staging staging_;
  bool watches_idle_ = false;
  // Another home, from which this one fetched last. Shared with calls under way.
  std::string fetched_from_;
  std::shared_ptr<Channel> fetch_channel_;
  Strand strand_;
  Strand shard_strand_;
};

}  // namespace cohort
