#pragma once

// Answers the calls of proto/ps.proto; each family of verbs has its own file (service_*.cc). Pulls
// of whole slices and small calls are answered on the transport's thread, because they hold a
// slice's lock for only one pass over little memory. Large pushes and assigns, and pulls of many
// rows, run on the executor. Calls that make, freeze or restore slices run on one strand, in the
// order of their arrival. Calls that write or send a frozen shard run on a second strand, so that
// no freezing waits for a disk.
//
// The memory held for clients is bounded twice: requests, from their arrival to their answer, by
// the transport (Service::receive_budget); and answers to pulls, until they have been sent, by the
// send budget. A pull that waits for the send budget holds its request's ids in the receive budget.
// No call waits for the receive budget while it holds the send budget, so the two cannot block each
// other.
//
// Slices and counters belong to one coordinator: if another coordinator makes variables, it begins
// without any.
//
// Every call checks the epoch; calls that change state check it again at the change. Every error
// carries an ErrorDetail with this task as its origin.

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

// The largest payload that is handled on the transport's thread; larger ones go to the executor. A
// pass over 64 KiB takes about as long as handing over a task.
inline constexpr size_t kInlineBytesMax = size_t{64} << 10;

// The service of the Ps calls, on a parameter server or on a worker that is a home of variables.
// Thread-safe. Always owned by a shared_ptr: calls that are under way keep the service alive.
class PsService : public std::enable_shared_from_this<PsService> {
 public:
  struct Parts {
    // The task service and the gate are shared with the attach callback and with calls under way,
    // which may outlive the service.
    std::shared_ptr<TaskService> task_service;
    std::shared_ptr<PushGate> push_gate;
    // The budgets are shared with calls and answers under way, which may outlive the service.
    std::shared_ptr<ByteBudget> receive_budget;
    std::shared_ptr<ByteBudget> send_budget;
  };
  PsService(World world, Parts parts, VariableStore::Options options);

  // Returns the service that the transport listens with; the result keeps this object alive.
  Service service();

 private:
  template <typename Response>
  using Answer = absl::StatusOr<Envelope<Response>>;
  template <typename Request, typename Response>
  using Method = Answer<Response> (PsService::*)(const Envelope<Request>&);
  // The thread or strand on which a method runs.
  enum class Place { kTransport, kByPayloadSize, kStrand, kShardStrand };

  template <typename Request, typename Response>
  void Bind(Service& service, const char* name, Place place, Method<Request, Response> method);
  // Binds `handle` to the calls of `name`; calls of another epoch than the present one are refused.
  template <typename Request, typename Response, typename Handle>
  void BindHandler(Service& service, const char* name, Handle handle);
  template <typename Request, typename Response>
  void Respond(Method<Request, Response> method, Envelope<Request> request,
               TypedReply<Response> reply);
  template <typename Request, typename Response>
  void Dispatch(Place place, Method<Request, Response> method, Envelope<Request> request,
                TypedReply<Response> reply);

  // The slices that one coordinator has made, and the counters of their calls. Each call under way
  // keeps its contents, so the slices live as long as the call.
  struct Contents {
    explicit Contents(const VariableStore::Options& options) : store(options) {}
    VariableStore store;
    PsStats stats;
    uint64_t made_by = 0;   // incarnation of the coordinator; 0: no coordinator has made slices yet
    uint32_t replaced = 0;  // number of slices of the former coordinator
  };
  std::shared_ptr<Contents> contents() const;
  // Returns the contents that belong to the coordinator of this epoch. If the present contents are
  // those of another coordinator, new and empty ones replace them. Runs on the strand. Errors:
  // STALE for an old epoch.
  absl::StatusOr<std::shared_ptr<Contents>> ContentsOfHolder(uint64_t epoch);

  Answer<proto::CreateVariablesResponse> CreateVariables(
      const Envelope<proto::CreateVariablesRequest>& request);
  // Answers a pull once the send budget has room for the answer.
  void PullWithRoom(Envelope<proto::PullRequest> request, TypedReply<proto::PullResponse> reply);
  Answer<proto::PullResponse> PullHolding(const Envelope<proto::PullRequest>& request,
                                          ByteBudget::Room room);
  // Returns the approximate bytes of a pull's answer, or 0 for a pull that will be refused.
  size_t AnswerBytes(const proto::PullRequest& request) const;
  Answer<proto::PullResponse> Pull(const Envelope<proto::PullRequest>& request);
  Answer<proto::PushResponse> Push(const Envelope<proto::PushRequest>& request);
  Answer<proto::AssignResponse> Assign(const Envelope<proto::AssignRequest>& request);
  // Makes a change that has a number, so that it is made only once.
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
  // Fetch a chunk from another home into the staged restore. FetchStaged posts to the strand;
  // StartFetch and EndFetch run on the strand.
  void StartFetch(const proto::FetchStagedRequest& request,
                  TypedReply<proto::FetchStagedResponse> reply);
  Answer<proto::FetchStagedResponse> EndFetch(const proto::FetchStagedRequest& request,
                                              const Answer<proto::ReadShardResponse>& fetched);
  Answer<proto::ProbeDirectoryResponse> ProbeDirectory(
      const Envelope<proto::ProbeDirectoryRequest>& request);
  Answer<proto::FenceResponse> Fence(const Envelope<proto::FenceRequest>& request);
  Answer<proto::PsStatsResponse> GetStats(const Envelope<proto::PsStatsRequest>& request);

  Answer<proto::PushResponse> CheckAndApply(const Envelope<proto::PushRequest>& request);
  // Applies a push that the gate has admitted, slice by slice.
  Answer<proto::PushResponse> Apply(const Envelope<proto::PushRequest>& request,
                                    absl::Span<VariableSlice* const> shards,
                                    absl::Span<const PushedRows> rows, PsStats& stats);

  absl::StatusOr<uint32_t> LoadAndRestore(const proto::RestoreShardRequest& request);
  // Loads the states that LoadAndRestore gives to the slices: from initializers, from files, or
  // from the staged restore.
  absl::StatusOr<LoadedShards> Load(const proto::RestoreShardRequest& request,
                                    absl::Span<VariableSlice* const> shards);
  // Enters an epoch: drops what an older epoch held or staged. Errors: STALE for an old epoch.
  absl::Status EnterEpoch(uint64_t epoch);
  // Drops idle shards and an idle staged restore, and calls itself again as long as any are left.
  void WatchIdle();

  // Returns an error as it is sent: with an error class and with this task as its origin.
  absl::Status Refusal(const absl::Status& status) const;

  World world_;
  const std::shared_ptr<TaskService> task_service_;
  const std::shared_ptr<PushGate> push_gate_;
  const std::shared_ptr<ByteBudget> receive_budget_;
  const std::shared_ptr<ByteBudget> send_budget_;
  const VariableStore::Options store_options_;
  mutable Mutex mutex_;
  std::shared_ptr<Contents> contents_ ABSL_GUARDED_BY(mutex_);  // never null
  // The cut that this home restored last.
  struct RestoredCut {
    uint64_t epoch = 0;  // 0: no cut was restored
    std::string prefix;
    uint64_t watermark = 0;
    uint32_t tensors = 0;
  };
  HeldShards held_;
  // The members from here to fetch_channel_ are used only on strand_.
  RestoredCut restored_cut_;
  Staging staging_;
  bool watches_idle_ = false;
  // The home from which a chunk was fetched last, and the channel to it. The channel is shared with
  // calls under way, which may outlive the service.
  std::string fetched_from_;
  std::shared_ptr<Channel> fetch_channel_;
  Strand strand_;
  Strand shard_strand_;
};

}  // namespace cohort
