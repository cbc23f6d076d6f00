#pragma once

// Answers the calls of proto/ps.proto. The calls are implemented in the files service_*.cc, one for
// each family of calls. Pulls of whole slices and small calls are answered on the transport's
// thread, because they hold a slice's lock for only one pass over little memory. Large pushes and
// assigns, and pulls with many row ids, run on the executor. Calls that make slices, take their
// snapshots or restore them run on one strand, in the order of their arrival. Calls that write or
// send a snapshot run on a second strand, so that a snapshot can be taken
// while another one is still being written.
//
// Two budgets bound the memory that is held for clients. The receive budget
// (Service::receive_budget) counts the bytes of a request from its arrival to its answer. The send
// budget counts the bytes of an answer to a pull until the answer has been sent. A pull that waits
// for the send budget keeps its request's ids in the receive budget. No call waits for the receive
// budget while it holds room in the send budget, so the two budgets cannot cause a deadlock.
//
// Slices and counters belong to one coordinator. When another coordinator makes variables, all
// slices and counters of the former coordinator are dropped first.
//
// Every call checks its epoch on arrival; calls that change state check the epoch again at the
// change. Every error carries an ErrorDetail with this task as its origin.

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

// The largest payload of a request that is processed on the transport's thread, and the largest
// answer to a pull that is sent without waiting for the send budget. A pass over 64 KiB takes about
// as long as handing a task to the executor.
inline constexpr size_t kInlineBytesMax = size_t{64} << 10;

// The service PsService of a home: a parameter server, or a worker that has its own copy of
// variables. Thread-safe. Always owned by a shared_ptr, because running calls keep the service
// alive.
class PsService : public std::enable_shared_from_this<PsService> {
 public:
  struct Parts {
    // The task service and the push gate are shared with running calls, and with the callback that
    // the task service calls when a coordinator attaches. Calls and callback may outlive the
    // PsService.
    std::shared_ptr<TaskService> task_service;
    std::shared_ptr<PushGate> push_gate;
    // The two budgets are shared with running calls and with answers that are not sent yet, which
    // may outlive the PsService.
    std::shared_ptr<ByteBudget> receive_budget;
    std::shared_ptr<ByteBudget> send_budget;
  };
  PsService(World world, Parts parts, VariableStore::Options options);

  // Returns the handlers of all calls, for a transport that serves them. The handlers keep this
  // object alive.
  Service service();

 private:
  template <typename Response>
  using Answer = absl::StatusOr<Envelope<Response>>;
  template <typename Request, typename Response>
  using Method = Answer<Response> (PsService::*)(const Envelope<Request>&);
  // Where a call's method runs: on the transport's thread, there or on the executor depending on
  // the payload's size, on strand_, or on shard_strand_.
  enum class Place { kTransport, kByPayloadSize, kStrand, kShardStrand };

  template <typename Request, typename Response>
  void Bind(Service& service, const char* name, Place place, Method<Request, Response> method);
  // Registers `handle` as the handler of the call `name`. A call whose epoch is not the present one
  // is refused without calling `handle`.
  template <typename Request, typename Response, typename Handle>
  void BindHandler(Service& service, const char* name, Handle handle);
  template <typename Request, typename Response>
  void Respond(Method<Request, Response> method, Envelope<Request> request,
               TypedReply<Response> reply);
  template <typename Request, typename Response>
  void Dispatch(Place place, Method<Request, Response> method, Envelope<Request> request,
                TypedReply<Response> reply);

  // The slices that one coordinator has made, and the counters of the calls on these slices. Each
  // running call shares the ownership, so the slices live at least as long as the call.
  struct Contents {
    explicit Contents(const VariableStore::Options& options) : store(options) {}
    VariableStore store;
    PsStats stats;
    // Incarnation of the coordinator that made the slices; 0 if there are none yet.
    uint64_t made_by = 0;
    // Number of slices of the former coordinator that were dropped to make room for these.
    uint32_t replaced = 0;
  };
  std::shared_ptr<Contents> contents() const;
  // Returns the slices and counters of the coordinator to which `epoch` belongs. If the present
  // ones belong to another coordinator, they are dropped and replaced by empty ones. Runs on
  // strand_. Errors: STALE for an epoch that is not the current one.
  absl::StatusOr<std::shared_ptr<Contents>> ContentsOfHolder(uint64_t epoch);

  Answer<proto::CreateVariablesResponse> CreateVariables(
      const Envelope<proto::CreateVariablesRequest>& request);
  // Waits until the send budget has room for the answer to a pull, and then answers the pull.
  void PullWithRoom(Envelope<proto::PullRequest> request, TypedReply<proto::PullResponse> reply);
  Answer<proto::PullResponse> PullHolding(const Envelope<proto::PullRequest>& request,
                                          ByteBudget::Room room);
  // Returns the approximate size in bytes of the answer to a pull, or 0 for a pull that Pull() will
  // refuse.
  size_t AnswerBytes(const proto::PullRequest& request) const;
  Answer<proto::PullResponse> Pull(const Envelope<proto::PullRequest>& request);
  Answer<proto::PushResponse> Push(const Envelope<proto::PushRequest>& request);
  Answer<proto::AssignResponse> Assign(const Envelope<proto::AssignRequest>& request);
  // Changes values by an Assign call that has an update number. A slice ignores an update number
  // that is not higher than the last one.
  Answer<proto::AssignResponse> Change(const Envelope<proto::AssignRequest>& request,
                                       absl::Span<VariableSlice* const> shards);
  // Sets a slot of whole slices by an Assign call, which must have an update number. A slice
  // ignores an update number that is not higher than the last one.
  Answer<proto::AssignResponse> SetSlots(const Envelope<proto::AssignRequest>& request,
                                         absl::Span<VariableSlice* const> shards);
  // Reads a slot of whole slices by a Pull call, which must ask for nothing else. SlotBytes returns
  // the size in bytes of the answer, or 0 for a slot that a slice does not have.
  static Answer<proto::PullResponse> PullSlots(const proto::PullRequest& header,
                                               absl::Span<VariableSlice* const> shards);
  static size_t SlotBytes(absl::Span<VariableSlice* const> shards, const std::string& slot);
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
  // The steps of a FetchStaged call, which copies a chunk of a shard from another home into the
  // staged restore. FetchStaged posts StartFetch to strand_. StartFetch asks the other home for the
  // chunk, and EndFetch, which runs on strand_ when the answer has come, stages the chunk.
  void StartFetch(const proto::FetchStagedRequest& request,
                  TypedReply<proto::FetchStagedResponse> reply);
  Answer<proto::FetchStagedResponse> EndFetch(const proto::FetchStagedRequest& request,
                                              const Answer<proto::ReadShardResponse>& fetched);
  Answer<proto::ProbeDirectoryResponse> ProbeDirectory(
      const Envelope<proto::ProbeDirectoryRequest>& request);
  Answer<proto::FenceResponse> Fence(const Envelope<proto::FenceRequest>& request);
  Answer<proto::PsStatsResponse> GetStats(const Envelope<proto::PsStatsRequest>& request);

  Answer<proto::PushResponse> CheckAndApply(const Envelope<proto::PushRequest>& request);
  // Applies a push that the push gate has admitted, to one slice after another.
  Answer<proto::PushResponse> Apply(const Envelope<proto::PushRequest>& request,
                                    absl::Span<VariableSlice* const> shards,
                                    absl::Span<const PushedRows> rows, PsStats& stats);

  absl::StatusOr<uint32_t> LoadAndRestore(const proto::RestoreShardRequest& request);
  // Returns the states to which LoadAndRestore restores the slices. The states come from the
  // initializers if the request names no checkpoint, else from the checkpoint's files or from the
  // staged restore.
  absl::StatusOr<LoadedShards> Load(const proto::RestoreShardRequest& request,
                                    absl::Span<VariableSlice* const> shards);
  // Enters the epoch `epoch`: drops the held checkpoint shards and the staged restore of older
  // epochs. Errors: STALE for an epoch that is not the current one.
  absl::Status EnterEpoch(uint64_t epoch);
  // Drops checkpoint shards and a staged restore that no call has used for kIdleMax. While any
  // remain, sets a timer that calls WatchIdle again.
  void WatchIdle();

  // Returns an error as it is sent to the caller: with an error class, and with this task as its
  // origin.
  absl::Status Refusal(const absl::Status& status) const;

  World world_;
  const std::shared_ptr<TaskService> task_service_;
  const std::shared_ptr<PushGate> push_gate_;
  const std::shared_ptr<ByteBudget> receive_budget_;
  const std::shared_ptr<ByteBudget> send_budget_;
  const VariableStore::Options store_options_;
  mutable Mutex mutex_;
  // Never null; replaced when another coordinator makes variables.
  std::shared_ptr<Contents> contents_ ABSL_GUARDED_BY(mutex_);
  // The cut that this home has restored most recently.
  struct RestoredCut {
    uint64_t epoch = 0;  // epoch in which the cut was restored; 0 if none was
    std::string prefix;
    uint64_t watermark = 0;
    uint32_t tensors = 0;
  };
  HeldShards held_;
  // The members from here to fetch_channel_ are used only on strand_.
  RestoredCut restored_cut_;
  Staging staging_;
  bool watches_idle_ = false;
  // The home from which the last chunk was fetched (address and incarnation), and the channel to
  // this home. The channel is shared with running calls, which may outlive the service.
  std::string fetched_from_;
  std::shared_ptr<Channel> fetch_channel_;
  Strand strand_;
  Strand shard_strand_;
};

}  // namespace cohort
