#include "worker/ps_client/ps_client.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <deque>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/cluster_spec.h"
#include "common/wire/error_detail.h"
#include "proto/ps.pb.h"

namespace cohort {

namespace {

constexpr char kPullMethod[] = "/cohort.proto.PsService/Pull";
constexpr char kPushMethod[] = "/cohort.proto.PsService/Push";
constexpr char kAssignMethod[] = "/cohort.proto.PsService/Assign";

// Adds the bytes of a slice of `value` to the payload; the payload shares the memory of `value`.
void AddBytes(const Tensor& value, const SliceTransfer& slice, Payload& payload) {
  if (slice.bytes == 0) return;
  payload.push_back(SliceOf(value, {slice.offset, slice.bytes}));
}

// Returns a push request with all fields but its slices.
Envelope<proto::PushRequest> RequestOf(const TransferContext& context, const PushContext& push) {
  Envelope<proto::PushRequest> request;
  request.header.set_epoch(context.epoch);
  request.header.set_closure_id(push.closure_id);
  request.header.set_attempt(push.attempt);
  request.header.set_worker_incarnation(push.worker_incarnation);
  request.header.set_watermark(push.watermark);
  request.header.set_learning_rate(push.learning_rate);
  request.header.set_step(push.step);
  request.header.set_time_ms(push.time_ms);
  request.header.set_round(push.round);
  request.header.set_aggregate(push.aggregate);
  return request;
}

// Returns true if both routes lead to the same process: another address or incarnation means that
// the server was started again.
bool IsSameProcess(const PsRoute& a, const PsRoute& b) {
  return a.address == b.address && a.task.incarnation() == b.task.incarnation();
}

}  // namespace

// The calls to all homes for one Pull, Push or Assign: starts the calls and counts their answers.
// Thread-safe. Always owned by a shared_ptr, which calls under way hold.
class PsClient::FanOut : public std::enable_shared_from_this<FanOut> {
 public:
  // Starts call number `part` of the plan. When the call ends, Finish() must be called.
  using Start = std::function<void(const std::shared_ptr<FanOut>&, size_t part)>;

  FanOut(Plan plan, Start start, Done done)
      : plan_(std::move(plan)),
        results_(plan_->by_ps.size()),
        left_(plan_->by_ps.size()),
        start_(std::make_shared<const Start>(std::move(start))),
        done_(std::move(done)) {
    for (size_t part = 0; part < results_.size(); ++part) {
      waiting_[plan_->by_ps[part].ps].push_back(part);
    }
  }

  void Begin() {
    // Starts up to kCallsAtOnceMax calls to each home; StartNext() does nothing if a home has no
    // further call. Calls to one home are adjacent in the plan.
    std::vector<uint32_t> homes;
    for (const PsTransfer& call : plan_->by_ps) {
      if (homes.empty() || homes.back() != call.ps) homes.push_back(call.ps);
    }
    for (const uint32_t ps : homes) {
      for (size_t i = 0; i < kCallsAtOnceMax; ++i) StartNext(ps);
    }
  }

  // Notes that call number `part` has ended, and starts the next call to the same home. Called once
  // for each call that was started.
  void Finish(size_t part, absl::Status result) {
    const uint32_t ps = plan_->by_ps[part].ps;
    Done done;
    absl::Status first;
    {
      // The start function, destroyed after the lock is released and before `done` runs, because it
      // holds the values that move.
      std::shared_ptr<const Start> ended;
      MutexLock lock(mutex_);
      // After an error, calls to this home that have not started are dropped: they would fail as
      // well, and the closure runs again as a whole.
      if (!result.ok()) left_ -= std::exchange(waiting_[ps], {}).size();
      results_[part] = std::move(result);
      if (--left_ == 0) {
        // The results are in the order of the homes, so the error of the home with the lowest index
        // is reported.
        for (absl::Status& status : results_) first.Update(status);
        done = std::move(done_);
        ended = std::move(start_);
      }
    }
    if (done != nullptr) return done(std::move(first));
    StartNext(ps);
  }

 private:
  void StartNext(uint32_t ps) {
    size_t part = 0;
    std::shared_ptr<const Start> start;
    {
      MutexLock lock(mutex_);
      std::deque<size_t>& waiting = waiting_[ps];
      if (waiting.empty()) return;
      part = waiting.front();
      waiting.pop_front();
      // The copied pointer keeps the start function alive, even if the last call ends while another
      // starts.
      start = start_;
    }
    // The call is started outside the lock, because it may end at once and call Finish().
    (*start)(shared_from_this(), part);
  }

  const Plan plan_;
  Mutex mutex_;
  std::vector<absl::Status> results_ ABSL_GUARDED_BY(mutex_);
  // The numbers of the calls that have not started, by home.
  std::map<uint32_t, std::deque<size_t>> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_);
  // The function that starts a call of the plan. Shared with calls that are being started. It holds
  // the values that move, so it is released with the last answer.
  std::shared_ptr<const Start> start_ ABSL_GUARDED_BY(mutex_);
  Done done_ ABSL_GUARDED_BY(mutex_);
};

PsClient::PsClient(World world, RetryPolicy policy, std::shared_ptr<PeerReach> reach)
    : world_(world),
      policy_(policy),
      reach_(std::move(reach)),
      pool_(std::make_shared<OutputPool>()) {}

void PsClient::SetOwnHome(proto::TaskRef own, std::shared_ptr<Channel> channel) {
  MutexLock lock(mutex_);
  own_ = std::move(own);
  own_home_ = std::move(channel);
}

bool PsClient::IsOwnLocked(const proto::TaskRef& task) const {
  return own_home_ != nullptr && task.role() == own_.role() && task.index() == own_.index();
}

// Returns a channel to the peer. The home in this process is reached without a connection.
std::shared_ptr<Channel> PsClient::ChannelToLocked(const proto::Peer& peer) const {
  if (IsOwnLocked(peer.task())) return own_home_;
  return world_.transport.Connect(peer.address(), Lane::kData);
}

void PsClient::SetPeers(const google::protobuf::RepeatedPtrField<proto::Peer>& peers,
                        absl::Duration window) {
  // `replaced` and `reroutes` are used after the lock is released, because destroying and rerouting
  // links may start calls, which ask this client for links.
  std::map<uint32_t, std::shared_ptr<PsLink>> replaced;
  std::vector<std::pair<std::shared_ptr<PsLink>, PsRoute>> reroutes;
  {
    MutexLock lock(mutex_);
    replaced.swap(links_);
    for (const proto::Peer& peer : peers) {
      const auto index = static_cast<uint32_t>(peer.task().index());
      PsRoute route{peer.task(), peer.address(), nullptr, window, IsOwnLocked(peer.task())};
      std::shared_ptr<PsLink>& link = links_[index];
      if (const auto known = replaced.find(index); known != replaced.end()) {
        link = known->second;
        const PsRoute before = link->route();
        // The channel to a process that is the same is kept, so that calls under way continue.
        if (IsSameProcess(before, route)) route.channel = before.channel;
      }
      if (route.channel == nullptr) route.channel = ChannelToLocked(peer);
      if (link == nullptr) {
        link = std::make_shared<PsLink>(std::move(route), reach_);
      } else {
        reroutes.emplace_back(link, std::move(route));
      }
    }
  }
  for (auto& [link, route] : reroutes) link->Reroute(std::move(route));
}

std::shared_ptr<PsLink> PsClient::LinkOf(uint32_t ps) const {
  MutexLock lock(mutex_);
  const auto found = links_.find(ps);
  return found == links_.end() ? nullptr : found->second;
}

// Starts a call to the home with index `ps`. The call fails with UNAVAILABLE (PS_LOST) if the
// coordinator has not named this home.
void PsClient::Call(uint32_t ps, const char* method, Message request, PsCaller caller, Reply done) {
  if (std::shared_ptr<PsLink> link = LinkOf(ps); link != nullptr) {
    return StartPsCall(world_, policy_, std::move(link), method, std::move(request),
                       std::move(caller), std::move(done));
  }
  proto::ErrorDetail detail;
  detail.set_error_class(proto::PS_LOST);
  detail.mutable_origin()->set_role(RoleName(Role::kPs));
  detail.mutable_origin()->set_index(static_cast<int32_t>(ps));
  const absl::Status unknown = WithDetail(
      absl::UnavailableError(absl::StrCat("the coordinator has not told where ps:", ps, " is")),
      detail);
  // `done` is posted, because it must not run inside Call().
  world_.executor.Run([done = std::move(done), unknown]() mutable { done(unknown); });
}

Tensor PsClient::Allocate(const VariableType& type, const Shape& shape) const {
  size_t bytes = static_cast<size_t>(shape.num_elements()) * ElementSize(type.dtype);
  // The pool gives a buffer again only for the same size. The number of pulled rows differs from
  // step to step, so the sizes of tensors of rows are rounded up to powers of two.
  if (type.by_rows) bytes = std::bit_ceil(std::max<size_t>(bytes, 1));
  return Tensor(type.dtype, shape, pool_->Take(bytes), 0);
}

void PsClient::Pull(Plan plan, Rows rows, const TransferContext& context, PullDone done) {
  auto state = std::make_shared<PullState>(
      plan, std::move(rows),
      [this](const VariableType& type, const Shape& shape) { return Allocate(type, shape); });
  std::make_shared<FanOut>(
      plan,
      [self = shared_from_this(), state, context](const auto& fan_out, size_t part) {
        self->StartPull(fan_out, state, part, context);
      },
      [state, done = std::move(done)](absl::Status status) mutable {
        // After an error no values are returned, because some have not arrived.
        if (!status.ok()) return done(std::move(status));
        done(state->Take());
      })
      ->Begin();
}

void PsClient::StartPull(const std::shared_ptr<FanOut>& fan_out,
                         const std::shared_ptr<PullState>& state, size_t part,
                         const TransferContext& context) {
  Call(state->ps(part), kPullMethod, Pack(state->Request(part, context.epoch, context.round)),
       context.caller,
       [self = shared_from_this(), state, fan_out, part](absl::StatusOr<Message> answer) {
         if (!answer.ok()) return fan_out->Finish(part, answer.status());
         const size_t bytes = PayloadBytes(answer->payload);
         Task read = [state, fan_out, part, message = *std::move(answer)]() mutable {
           absl::Status status;
           {
             auto response = Unpack<proto::PullResponse>(std::move(message));
             status = response.ok() ? state->Read(part, *response) : response.status();
           }  // frees the answer's bytes before the next call brings more
           fan_out->Finish(part, std::move(status));
         };
         // A large answer is copied on the executor, because the copy would delay other answers on
         // the transport's thread.
         if (bytes <= kInlineCopyBytesMax) return read();
         self->world_.executor.Run(std::move(read));
       });
}

void PsClient::AddGradients(const PsTransfer& home, const TransferPlan& plan,
                            const Gradients& gradients, CompressedGradients& compressed,
                            Envelope<proto::PushRequest>& request) {
  using Kind = CompressedGradients::Kind;
  for (const SliceTransfer& slice : home.slices) {
    proto::PushSlice* const pushed = request.header.add_slices();
    pushed->set_slice_id(slice.slice_id);
    pushed->set_pulled_version(gradients.versions[slice.ordinal]);
    pushed->set_assign(gradients.assign);
    FillMeta(plan.variables[slice.variable], slice, pushed->mutable_tensor());
    // The plan measures slices in bytes; compression counts elements.
    const size_t element = ElementSize(plan.variables[slice.variable].dtype);
    compressed.Add(Kind::kSlice, gradients.values[slice.variable],
                   {slice.offset / element, slice.bytes / element}, *pushed, request.payload);
  }
  for (const RowSlice& slice : home.row_slices) {
    const VariableType& type = plan.variables[slice.variable];
    const RowRun run = RowsOfSlice((*gradients.rows)[slice.variable], slice);
    proto::PushSlice* const pushed = request.header.add_slices();
    pushed->set_slice_id(slice.slice_id);
    pushed->set_pulled_version(gradients.versions[slice.ordinal]);
    FillRowsMeta(type, run, pushed->mutable_tensor());
    FillIdsMeta(run.count, pushed->mutable_ids());
    AddIds(gradients.rows, slice.variable, run, request.payload);
    // Row ids ascend, so the rows of one slice are adjacent in the tensor.
    const size_t width = type.row_bytes() / ElementSize(type.dtype);
    compressed.Add(Kind::kRows, gradients.values[slice.variable],
                   {run.begin * width, run.count * width}, *pushed, request.payload);
  }
}

void PsClient::Push(Plan plan, Gradients gradients, const TransferContext& context,
                    const PushContext& push, PushDone done) {
  // The total is atomic, because answers to the pushes arrive on several threads.
  auto open_rounds = std::make_shared<std::atomic<uint64_t>>(0);
  auto pushed = std::make_shared<const Gradients>(std::move(gradients));
  std::make_shared<FanOut>(
      plan,
      [self = shared_from_this(), plan, pushed, context, push, open_rounds](const auto& fan_out,
                                                                            size_t part) {
        // A value that replaces a variable's value is not a gradient, so it is never compressed.
        auto compressed = std::make_shared<CompressedGradients>(
            pushed->assign ? Compression() : plan->compression, self->residuals_, context.epoch);
        Envelope<proto::PushRequest> request = RequestOf(context, push);
        AddGradients(plan->by_ps[part], *plan, *pushed, *compressed, request);
        self->Call(plan->by_ps[part].ps, kPushMethod, Pack(std::move(request)), context.caller,
                   [fan_out, part, open_rounds, compressed](absl::StatusOr<Message> answer) {
                     proto::PushResponse response;
                     absl::Status status = answer.status();
                     if (status.ok() && !response.ParseFromString(answer->header)) {
                       status = MalformedMessage("malformed PushResponse");
                     }
                     *open_rounds += response.open_rounds();
                     // After an error `taken` is empty: no slice counts as applied, and the
                     // residuals are kept accordingly.
                     compressed->Settle(response.taken());
                     fan_out->Finish(part, std::move(status));
                   });
      },
      [open_rounds, done = std::move(done)](absl::Status status) mutable {
        if (!status.ok()) return done(std::move(status));
        done(open_rounds->load());
      })
      ->Begin();
}

void PsClient::Assign(Plan plan, std::vector<Tensor> values, const TransferContext& context,
                      Done done) {
  // The values are shared by all calls, whose payloads point into them.
  auto assigned = std::make_shared<const std::vector<Tensor>>(std::move(values));
  std::make_shared<FanOut>(
      plan,
      [self = shared_from_this(), plan, assigned, context](const auto& fan_out, size_t part) {
        const PsTransfer& home = plan->by_ps[part];
        Envelope<proto::AssignRequest> request;
        request.header.set_epoch(context.epoch);
        for (const SliceTransfer& slice : home.slices) {
          request.header.add_slice_ids(slice.slice_id);
          FillMeta(plan->variables[slice.variable], slice, request.header.add_tensors());
          AddBytes((*assigned)[slice.variable], slice, request.payload);
        }
        self->Call(home.ps, kAssignMethod, Pack(std::move(request)), context.caller,
                   [fan_out, part](absl::StatusOr<Message> answer) {
                     fan_out->Finish(part, answer.status());
                   });
      },
      std::move(done))
      ->Begin();
}

}  // namespace cohort
