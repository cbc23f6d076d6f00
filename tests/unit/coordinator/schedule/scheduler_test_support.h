#pragma once

// A scheduler whose workers are played by the test.

#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/schedule/scheduler.h"
#include "tests/support/world/sim_world.h"

namespace cohort {

// A channel to a worker that the test plays: calls wait until it answers them.
class ScriptedChannel final : public Channel {
 public:
  struct OpenCall {
    std::string method;
    Message request;
    Reply done;
  };

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    calls.push_back({std::string(method), std::move(request), std::move(done)});
    return nullptr;
  }

  // Answers the registration calls in front; what is left are RunClosure calls.
  void AnswerPreparations() {
    while (!calls.empty() && calls.front().method != kRun) {
      OpenCall call = std::move(calls.front());
      calls.pop_front();
      preparations.push_back(call.method);
      call.done(Message{});
    }
  }

  proto::RunClosureRequest Peek() {
    proto::RunClosureRequest request;
    request.ParseFromString(calls.front().request.header);
    return request;
  }

  void AnswerRun(const absl::Status& status, bool round_applied = false) {
    OpenCall call = std::move(calls.front());
    calls.pop_front();
    if (!status.ok()) return call.done(status);
    Envelope<proto::RunClosureResponse> response;
    response.header.set_round_applied(round_applied);
    const Tensor value = Tensor::Scalar(42.0f);
    *response.header.add_fetches() = MetaOf(value);
    response.payload.push_back(SliceOf(value));
    call.done(Pack(std::move(response)));
  }

  static constexpr char kRun[] = "/cohort.proto.WorkerService/RunClosure";
  std::deque<OpenCall> calls;
  std::vector<std::string> preparations;
};

inline proto::TaskRef Worker(int index, uint64_t incarnation) {
  proto::TaskRef task;
  task.set_role("worker");
  task.set_index(index);
  task.set_incarnation(incarnation);
  return task;
}

class SchedulerTest : public testing::Test {
 protected:
  // A transport ends every call some time; here those left over end unanswered. Their completions
  // hold scheduler and channel, which hold them.
  ~SchedulerTest() override {
    for (const auto& channel : channels) channel->calls.clear();
  }

  void Make(int in_flight, size_t bound = 100, uint32_t attempts_max = 3) {
    Scheduler::Options options;
    options.epoch = 7;
    options.closures_in_flight = in_flight;
    options.gang_size = gang_size;
    options.gang_min = gang_min;
    options.on_out_of_step = [this](const std::map<int, uint64_t>& workers, const absl::Status&) {
      for (const auto& [worker, session] : workers) out_of_step.push_back(worker);
    };
    options.queue_bound = bound;
    options.attempts_max = attempts_max;
    options.steps_ahead_max = steps_ahead_max;
    options.quarantine = quarantine;
    options.stop_at_first_error = stop_at_first_error;
    options.on_suspect = [this](int worker, uint64_t incarnation) { suspects.push_back(worker); };
    options.redo_max = redo_max;
    options.checkpoint_every = checkpoint_every;
    options.on_checkpoint_due = [this] { ++checkpoints_asked; };
    options.on_ps_suspect = [this](int ps) { ps_suspects.push_back(ps); };
    options.fence = [this](uint64_t watermark, Scheduler::Done done) {
      fences.push_back({watermark, std::move(done)});
    };
    if (fences_workers) {
      options.fence_worker = [this](const std::set<uint64_t>& sessions, Scheduler::Done done) {
        fences.push_back({*sessions.begin(), std::move(done)});
      };
    }
    scheduler = Scheduler::Create(sim, options);
    auto registered = std::make_shared<RegisteredProgram>();
    registered->id = "p1";
    registered->request.mutable_program()->add_outputs()->set_push("w");
    program = registered;
  }

  // The value of the closure; its admission status lands in `admitted`.
  std::shared_ptr<RemoteValueState> Schedule(WaitId* wait = nullptr) {
    auto value = std::make_shared<RemoteValueState>();
    auto closure = std::make_shared<Closure>();
    closure->program = program;
    closure->result = value;
    closure->replayable = replayable;
    closure->round = round;
    closure->gang = gang;
    const WaitId id = scheduler->Schedule(
        std::move(closure), [this](absl::Status status) { admitted.push_back(status); });
    if (wait != nullptr) *wait = id;
    return value;
  }

  std::shared_ptr<ScriptedChannel> AddWorker(int index, uint64_t incarnation = 1) {
    auto channel = std::make_shared<ScriptedChannel>();
    channels.push_back(channel);
    scheduler->WorkerReady(index, Worker(index, incarnation), absl::StrCat("host-", index),
                           channel);
    return channel;
  }

  WaitId Join() {
    return scheduler->Join([this](absl::Status status) { joined.push_back(status); });
  }

  Quarantine quarantine = Quarantine::kFail;  // for Make, as the next one
  bool stop_at_first_error = true;
  uint64_t steps_ahead_max = std::numeric_limits<uint64_t>::max();
  size_t redo_max = 0;
  size_t checkpoint_every = 0;
  bool fences_workers = false;
  bool replayable = true;  // of what is scheduled, as the next one
  Round round;
  bool gang = false;
  int gang_size = 1;  // for Make
  int gang_min = 1;
  std::vector<int> out_of_step;  // in the order in which they were reported
  int checkpoints_asked = 0;
  std::vector<int> ps_suspects;
  SimWorld sim{1};
  std::shared_ptr<Scheduler> scheduler;
  std::shared_ptr<const RegisteredProgram> program;
  std::vector<absl::Status> admitted, joined;
  std::vector<int> suspects;
  std::vector<std::pair<uint64_t, Scheduler::Done>> fences;
  std::vector<std::shared_ptr<ScriptedChannel>> channels;
};

}  // namespace cohort
