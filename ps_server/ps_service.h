#pragma once

// Answers the calls of proto/ps.proto, one file per verb family (service_*.cc). Pulls and small
// pushes are answered on the transport's thread: they hold a slice's lock for one pass over little
// memory. Large pushes and assigns go to the executor. What makes slices or touches files goes
// through one strand, in the order in which it was asked for.
//
// Every call checks the epoch, those that change state once more at the change. Every error carries
// an ErrorDetail with this ps as origin.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/strand.h"
#include "common/wire/task_service.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "proto/ps.pb.h"
#include "ps_server/ps_stats.h"
#include "ps_server/push_gate.h"
#include "ps_server/variable_store.h"

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
  };
  PsService(World world, Parts parts, VariableStore::Options options);

  // The service to listen with. It keeps this object alive.
  Service service();

 private:
  template <typename Response>
  using Answer = absl::StatusOr<Envelope<Response>>;
  template <typename Request, typename Response>
  using Method = Answer<Response> (PsService::*)(const Envelope<Request>&);
  // Where a method runs.
  enum class Place { kTransport, kByPayloadSize, kStrand };

  template <typename Request, typename Response>
  void Bind(Service& service, const char* name, Place place, Method<Request, Response> method);
  template <typename Request, typename Response>
  void Dispatch(Place place, Method<Request, Response> method, Envelope<Request> request,
                TypedReply<Response> reply);

  Answer<proto::CreateVariablesResponse> CreateVariables(
      const Envelope<proto::CreateVariablesRequest>& request);
  Answer<proto::PullResponse> Pull(const Envelope<proto::PullRequest>& request);
  Answer<proto::PushResponse> Push(const Envelope<proto::PushRequest>& request);
  Answer<proto::AssignResponse> Assign(const Envelope<proto::AssignRequest>& request);
  Answer<proto::SaveShardResponse> SaveShard(const Envelope<proto::SaveShardRequest>& request);
  Answer<proto::RestoreShardResponse> RestoreShard(
      const Envelope<proto::RestoreShardRequest>& request);
  Answer<proto::FenceResponse> Fence(const Envelope<proto::FenceRequest>& request);
  Answer<proto::PsStatsResponse> GetStats(const Envelope<proto::PsStatsRequest>& request);

  Answer<proto::PushResponse> CheckAndApply(const Envelope<proto::PushRequest>& request);
  // Of a push that the gate has admitted.
  Answer<proto::PushResponse> Apply(const Envelope<proto::PushRequest>& request,
                                    absl::Span<VariableShard* const> shards);

  absl::StatusOr<uint32_t> LoadAndRestore(const proto::RestoreShardRequest& request);

  // The status as it leaves: with a class and this ps as origin.
  absl::Status Refusal(const absl::Status& status) const;

  World world_;
  const std::shared_ptr<TaskService> task_service_;
  const std::shared_ptr<PushGate> push_gate_;
  VariableStore store_;
  PsStats stats_;
  // The last saves of an epoch, by their numbers. On the strand, as the next one: a repeat that
  // comes late writes nothing.
  struct Saves {
    uint64_t epoch = 0;
    std::map<uint64_t, proto::SaveShardResponse> answers;
  };
  // The cut that was restored last. Only touched on the strand.
  struct RestoredCut {
    uint64_t epoch = 0;  // 0: none
    std::string prefix;
    uint64_t watermark = 0;
    uint32_t tensors = 0;
  };
  Saves saves_;
  RestoredCut restored_cut_;
  Strand strand_;
};

// Checks that each tensor is the value of its shard by type and shape and that the payload has
// exactly their bytes. Errors: INVALID_ARGUMENT naming the variable, what came and what is held.
absl::Status CheckTensors(absl::Span<const proto::TensorMeta* const> metas,
                          absl::Span<VariableShard* const> shards, const Payload& payload);

}  // namespace cohort
