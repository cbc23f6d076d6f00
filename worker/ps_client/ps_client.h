#pragma once

// Moves values of variables between this worker and the variables' homes (parameter servers, or
// workers with their own copies), by the calls of a transfer plan. All homes are called at once,
// but each home gets only a few calls at a time, so that the bytes under way stay bounded
// (kCallsAtOnceMax). Received bytes are copied once, to their place in the variable's tensor or in
// the tensor of the rows that move. Gradients are sent from the tensors in which they are, unless
// the program asks for another form (compressed_gradients.h). Each slice of a variable that moves
// by rows is in a call, even with none of its rows: a push of no rows counts as one of the
// closure's pushes.
//
// Errors of Pull, Push and Assign: those of StartPsCall; UNAVAILABLE (PS_LOST) for a home that
// Attach did not name; INTERNAL (APPLICATION) for an answer that does not match the request. If
// several homes failed, the error of the home with the lowest index is reported.

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

// The largest number of concurrent calls of one transfer to one home. With two calls, one answer
// can travel while the other is copied into the tensors.
inline constexpr size_t kCallsAtOnceMax = 2;

// An answer with more bytes is copied on the executor and not on the transport's thread.
inline constexpr size_t kInlineCopyBytesMax = size_t{1} << 20;

// The parameters of all transfers of one closure.
struct TransferContext {
  uint64_t epoch = 0;
  // Round of a synchronous step, which pulls the values before the round; 0: not synchronous.
  uint64_t round = 0;
  PsCaller caller;
};

// The parameters of all pushes of one closure.
struct PushContext {
  uint64_t closure_id = 0;
  uint32_t attempt = 0;
  uint64_t worker_incarnation = 0;
  uint64_t watermark = 0;
  double learning_rate = 0;
  uint64_t step = 0;
  uint64_t time_ms = 0;
  uint64_t round = 0;  // synchronous round that the push belongs to; 0: not synchronous
  uint32_t aggregate = 0;
};

// This worker's client of all homes of variables. Thread-safe. Always owned by a shared_ptr, which
// calls under way hold.
class PsClient : public std::enable_shared_from_this<PsClient> {
 public:
  using PullDone = absl::AnyInvocable<void(absl::StatusOr<Pulled>)>;
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // A transfer plan. Shared with its program, because the program may be released during a
  // transfer.
  using Plan = std::shared_ptr<const TransferPlan>;
  using Rows = SharedRows;  // for each variable of the plan: the ids of the rows that move

  // Makes a client that knows no homes yet. `reach` watches the homes with open calls.
  PsClient(World world, RetryPolicy policy, std::shared_ptr<PeerReach> reach);

  // Sets the home in this process: `own` is this task, and `channel` reaches the home's PsService.
  // Called before SetPeers().
  void SetOwnHome(proto::TaskRef own, std::shared_ptr<Channel> channel);

  // Sets the homes and their addresses. Calls to a home whose process is the same continue. Calls
  // to a home whose process is another one (by its incarnation or address) are repeated over a new
  // connection. `window` is that of each link (PsRoute).
  void SetPeers(const google::protobuf::RepeatedPtrField<proto::Peer>& peers,
                absl::Duration window);

  // Pulls the values of the plan's variables, or the rows that `rows` names. `done` may run on any
  // thread, but never inside this call.
  void Pull(Plan plan, Rows rows, const TransferContext& context, PullDone done);

  // The values to push, by variable of the plan: a whole value, or one row for each id in `rows`.
  // `versions` are the versions that were pulled, by slice of the plan.
  struct Gradients {
    std::vector<Tensor> values;
    Rows rows;
    std::vector<uint64_t> versions;
    // True for values that replace the variables' values in a synchronous round; false for
    // gradients.
    bool assign = false;
  };
  // Receives the number of pushed slices whose synchronous round still needs other workers' pushes.
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
  // The record of which peers are reached; shared with the groups.
  const std::shared_ptr<PeerReach> reach_;
  // The memory of pulled values; shared with tensors that Pull() has returned.
  const std::shared_ptr<OutputPool> pool_;
  // The unsent parts of compressed gradients; shared with pushes under way.
  const std::shared_ptr<GradientResiduals> residuals_ = std::make_shared<GradientResiduals>();
  mutable Mutex mutex_;
  proto::TaskRef own_ ABSL_GUARDED_BY(mutex_);
  // Channel to the home in this process, shared with routes; null: this process is no home.
  std::shared_ptr<Channel> own_home_ ABSL_GUARDED_BY(mutex_);
  // The link to each home, by index; shared with calls under way.
  std::map<uint32_t, std::shared_ptr<PsLink>> links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
