#pragma once

// Moves the values of variables between this worker and the parameter servers, by the calls of a
// plan: to all servers at once, and to one server so few at a time that what is on its way stays
// bounded (kCallsAtOnceMax). Received bytes are copied once, into
// their rows of the whole variable, or of the rows that are moved; sent gradients are slices of the
// tensors they are in, unless the plan says that floats travel otherwise (compressed_gradients.h).
// A slice of a variable that moves by rows is in every call, also with none of its rows: a push of
// no rows is one of its closure's pushes like any other.
//
// Errors of all three: those of StartPsCall; UNAVAILABLE (PS_LOST) for a server that Attach did not
// name; INTERNAL (APPLICATION) for an answer that is not what was asked for. With several failed
// servers the lowest index is reported.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "proto/task.pb.h"
#include "worker/ps_client/compressed_gradients.h"
#include "worker/ps_client/ps_call.h"
#include "worker/ps_client/pull_state.h"

namespace cohort {

// Upper bound of calls to one server at once: while the answer of one is copied to its place, the
// next one is on its way.
inline constexpr size_t kCallsAtOnceMax = 2;

// Copies above this leave the transport's thread.
inline constexpr size_t kInlineCopyBytesMax = size_t{1} << 20;

// The closure's context for moving values.
struct TransferContext {
  uint64_t epoch = 0;
  uint64_t round = 0;  // a synchronous step's: it pulls the values before its round
  PsCaller caller;
};

// The context of every push of one closure.
struct PushContext {
  uint64_t closure_id = 0;
  uint32_t attempt = 0;
  uint64_t worker_incarnation = 0;
  uint64_t watermark = 0;
  double learning_rate = 0;
  uint64_t step = 0;
  uint64_t time_ms = 0;
  uint64_t round = 0;  // 0: not synchronous
  uint32_t aggregate = 0;
};

// Thread-safe. Always owned by a shared_ptr: calls under way keep it alive.
class PsClient : public std::enable_shared_from_this<PsClient> {
 public:
  using PullDone = absl::AnyInvocable<void(absl::StatusOr<Pulled>)>;
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // Shared: with the program that it belongs to, which may be released meanwhile.
  using Plan = std::shared_ptr<const TransferPlan>;
  using Rows = SharedRows;  // indexed by a plan's variables

  // Makes a client; `reach` watches the servers.
  PsClient(World world, RetryPolicy policy, std::shared_ptr<PeerReach> reach);

  // Sets this task's own home: `own` is this task itself, and its variables are reached by the
  // channel. Called before SetPeers.
  void SetOwnHome(proto::TaskRef own, std::shared_ptr<Channel> channel);

  // Replaces the known servers. Calls to a process that stays go on; those to one that another has
  // replaced (by its incarnation or address) end, and are made again over a new connection.
  void SetPeers(const google::protobuf::RepeatedPtrField<proto::Peer>& peers,
                absl::Duration window);

  // Pulls values. `done` may run on any thread, never inside the call.
  void Pull(Plan plan, Rows rows, const TransferContext& context, PullDone done);

  // The values to push: by the plan's variables, of their type, or a row for each of `rows`;
  // `versions` that were pulled, by the plan's slices.
  struct Gradients {
    std::vector<Tensor> values;
    Rows rows;
    std::vector<uint64_t> versions;
    bool assign = false;  // in a round: values that replace those of the variables
  };
  // The number of slices in which the push's round waits for more.
  using PushDone = absl::AnyInvocable<void(absl::StatusOr<uint64_t> open_rounds)>;
  void Push(Plan plan, Gradients gradients, const TransferContext& context, const PushContext& push,
            PushDone done);

  void Assign(Plan plan, std::vector<Tensor> values, const TransferContext& context, Done done);

 private:
  class FanOut;

  void StartPull(const std::shared_ptr<FanOut>& fan_out, const std::shared_ptr<PullState>& state,
                 size_t part, const TransferContext& context);

  std::shared_ptr<PsLink> LinkOf(uint32_t ps) const;
  bool IsOwnLocked(const proto::TaskRef& task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Channel> ChannelToLocked(const proto::Peer& peer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Call(uint32_t ps, const char* method, Message request, PsCaller caller, Reply done);
  Tensor Allocate(const VariableType& type, const Shape& shape) const;
  static void AddGradients(const PsTransfer& home, const TransferPlan& plan,
                           const Gradients& gradients, CompressedGradients& compressed,
                           Envelope<proto::PushRequest>& request);

  World world_;
  const RetryPolicy policy_;
  const std::shared_ptr<PeerReach> reach_;  // shared with what else the worker needs
  // Shared with the tensors that are out.
  const std::shared_ptr<OutputPool> pool_;
  // Shared with pushes under way.
  const std::shared_ptr<GradientResiduals> residuals_ = std::make_shared<GradientResiduals>();
  mutable Mutex mutex_;
  proto::TaskRef own_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Channel> own_home_ ABSL_GUARDED_BY(mutex_);  // shared with routes; may be none
  // Shared with calls under way.
  std::map<uint32_t, std::shared_ptr<PsLink>> links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
