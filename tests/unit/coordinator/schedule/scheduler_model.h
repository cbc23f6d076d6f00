#pragma once

// What a scheduler does, told as plainly as it can be: one caller at a time, no workers, no
// messages, no locks. A closure is asked for, waits for its inputs, is queued, is in flight or has
// ended; the first failure is raised by one call, after everything queued was cancelled, everything
// in flight has ended and the parameter servers refuse what lost workers may still push. Which free
// worker takes a closure is not the model's business: it is told beforehand what was dispatched in
// the next step (Expect), and says afterwards what of it was wrong or is missing (Problem).

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

// One closure on one worker process.
struct ModelRun {
  uint64_t id = 0;
  int worker = 0;
  uint64_t incarnation = 0;
  uint64_t session = 0;
  uint32_t attempt = 0;
};

enum class ModelAnswer { kDone, kFailed, kTransient, kBroken };

// Calls have the caller's numbers, closures ("tickets") count from 0 in the order of Schedule.
// Thread-compatible.
class SchedulerModel {
 public:
  struct Limits {
    size_t bound = 0;  // of the queue
    int slots = 1;
    uint64_t ahead_max = 0;  // SchedulerOptions::steps_ahead_max
  };
  explicit SchedulerModel(const Limits& limits)
      : bound_(limits.bound), slots_(limits.slots), ahead_max_(limits.ahead_max) {}

  void Schedule(int call, std::vector<int> inputs);
  void Join(int call);
  void Done(int call);
  bool Abandon(int call);
  void BeginFetch(int call, int ticket);
  void EndFetches();  // of results that are there
  void RecordError(const std::string& text);
  void Pause();
  void Resume();

  void Ready(int worker, uint64_t incarnation);
  // The sessions that the parameter servers must now be told to refuse.
  std::set<uint64_t> Lost(int worker);
  void Remove(int worker, int call);
  // They do.
  void SessionsFenced(const std::set<uint64_t>& sessions);
  // So does every one for whatever ran before; `round` as in fence_round.
  void ErrorFenced(int round);
  // As Lost: what a broken call has begun may still push.
  std::set<uint64_t> Answered(const ModelRun& run, ModelAnswer answer, const std::string& error);

  // The runs that the next step brings.
  void Expect(std::vector<ModelRun> runs) { expected_ = std::move(runs); }
  // A run that should not, or should, have been; empty: none.
  std::string Problem() const;

  // How each call that has ended did: "OK", "idle", "busy", a value or the text of an error.
  const std::map<int, std::string>& ended() const { return ended_; }
  // Empty: not there yet.
  const std::string& ResultOf(int ticket) const { return closures_[ticket].result; }
  bool IsAdmitted(int ticket) const { return closures_[ticket].state != State::kAsked; }
  bool IsInFlight(const ModelRun& run) const;
  size_t in_flight() const { return in_flight_.size(); }
  size_t queued() const { return queued_.size() + waiting_inputs_.size(); }
  uint64_t next_id() const { return ticket_of_.size() + 1; }
  int fence_round() const { return fence_round_; }  // so many fences for an error were asked for
  std::vector<int> Workers(bool ready) const;
  uint64_t IncarnationOf(int worker) const { return workers_.at(worker).incarnation; }
  uint64_t last_session() const { return last_session_; }
  size_t bound() const { return bound_; }
  uint64_t ahead_max() const { return ahead_max_; }
  bool IsPaused() const { return paused_; }
  bool IsIdle() const { return in_flight_.empty() && queued() == 0; }
  bool HasWaitingCalls() const;
  size_t schedules() const { return schedules_.size(); }

 private:
  enum class State { kAsked, kWaiting, kQueued, kInFlight, kEnded };
  struct ClosureState {
    State state = State::kAsked;
    uint64_t id = 0;
    std::vector<int> inputs;  // tickets
    size_t inputs_left = 0;
    std::vector<int> dependents;  // tickets that wait for the result
    std::string result;
    bool failed = false;
    uint32_t attempts = 0;
  };
  struct WorkerState {
    bool ready = false;
    uint64_t incarnation = 0;
    uint64_t session = 0;
    std::vector<int> leaving;  // calls; not empty: it is being removed
  };
  using Results = std::vector<std::pair<int, std::string>>;  // errors, by ticket

  // Everything that follows from a change.
  void Settle(Results failed = {});
  void RetireLanes();
  void ObserveError(Results& failed);
  void TakeObserver(const std::string& error, Results& failed);
  std::vector<int> Admit();
  void Watch(int ticket);
  void OnInput(int ticket);
  void SetResult(int ticket, const std::string& result, bool failed);
  void AddError(const std::string& text);
  void PutBack(uint64_t id);
  void Dispatch();
  // Why the oldest queued closure may not run so; empty: it may.
  std::string Refusal(const ModelRun& run) const;
  // Whether a closure may not start because an older one has not ended.
  bool IsTooFarAhead(uint64_t id) const;
  int InFlightOn(int worker) const;
  bool Stops() const { return !errors_.empty() && fetches_.empty(); }

  const size_t bound_;
  bool is_full_ = false;
  const int slots_;
  const uint64_t ahead_max_;
  std::vector<ClosureState> closures_;
  std::map<uint64_t, int> ticket_of_;  // by id
  std::set<uint64_t> queued_, waiting_inputs_;
  std::map<uint64_t, ModelRun> in_flight_;
  std::deque<std::pair<int, int>> schedules_;  // call and ticket
  std::deque<int> joins_, dones_;
  std::vector<std::pair<int, int>> fetches_;  // call and ticket
  std::vector<std::string> errors_;           // texts, each once
  bool paused_ = false;
  bool needs_fence_ = false;
  bool fencing_ = false;
  int fence_round_ = 0;
  std::vector<ModelRun> expected_;
  uint64_t last_session_ = 0;
  std::set<uint64_t> fencing_sessions_;  // that nobody has said yet to be refused
  std::map<int, WorkerState> workers_;
  std::map<int, std::string> ended_;
};

}  // namespace cohort
