#include "tests/unit/coordinator/schedule/scheduler_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr char kCancelled[] =
    "the closure was cancelled because another one failed; schedule it again";
constexpr size_t kErrorsShown = 8;

std::string Text(const std::vector<std::string>& errors) {
  if (errors.size() == 1) return errors[0];
  const size_t shown = std::min(errors.size(), kErrorsShown);
  return absl::StrCat(
      errors[0], "; after it: ", absl::StrJoin(errors.begin() + 1, errors.begin() + shown, "; "),
      shown < errors.size() ? "; and others" : "");
}

template <typename List, typename Match>
bool EraseFirst(List& list, Match match) {
  const auto found = std::find_if(list.begin(), list.end(), match);
  if (found == list.end()) return false;
  list.erase(found);
  return true;
}

}  // namespace

void SchedulerModel::Schedule(int call, std::vector<int> inputs) {
  schedules_.emplace_back(call, static_cast<int>(closures_.size()));
  closures_.emplace_back().inputs = std::move(inputs);
  Settle();
}

void SchedulerModel::Join(int call) {
  joins_.push_back(call);
  Settle();
}

void SchedulerModel::Done(int call) {
  if (errors_.empty()) {
    ended_[call] = IsIdle() && !paused_ ? "idle" : "busy";
    return;
  }
  dones_.push_back(call);
  Settle();
}

bool SchedulerModel::Abandon(int call) {
  const auto is_call = [call](int other) { return other == call; };
  const bool found = EraseFirst(joins_, is_call) || EraseFirst(dones_, is_call) ||
                     EraseFirst(schedules_, [&](auto& other) { return other.first == call; });
  Settle();
  return found;
}

void SchedulerModel::BeginFetch(int call, int ticket) {
  fetches_.emplace_back(call, ticket);
  Settle();
}

void SchedulerModel::EndFetches() {
  while (EraseFirst(fetches_, [this](const std::pair<int, int>& fetch) {
    const std::string& result = closures_[fetch.second].result;
    if (!result.empty()) ended_[fetch.first] = result;
    return !result.empty();
  })) {
  }
}

void SchedulerModel::RecordError(const std::string& text) {
  AddError(text);
  Settle();
}

void SchedulerModel::AddError(const std::string& text) {
  // The error of a closure whose argument failed tells the argument's error behind a context.
  const auto repeats = [&](const std::string& said) { return RepeatsMessage(text, said); };
  if (std::none_of(errors_.begin(), errors_.end(), repeats)) errors_.push_back(text);
}

// The next epoch refuses whatever is still under way: nothing is left to be fenced.
void SchedulerModel::Pause() {
  paused_ = true;
  while (!in_flight_.empty()) PutBack(in_flight_.begin()->first);
  RetireLanes();
  workers_.clear();
  Settle();
}

void SchedulerModel::Resume() {
  paused_ = needs_fence_ = fencing_ = false;
  Settle();
}

void SchedulerModel::Ready(int worker, uint64_t incarnation) {
  WorkerState& state = workers_[worker];
  if (!state.leaving.empty()) return;
  state = {true, incarnation, ++last_session_, {}};
  Settle();
}

std::set<uint64_t> SchedulerModel::Lost(int worker) {
  std::set<uint64_t> sessions;
  if (workers_.count(worker) > 0) workers_[worker].ready = false;
  for (const auto& [id, run] : in_flight_) {
    const bool is_new = run.worker == worker && fencing_sessions_.insert(run.session).second;
    if (is_new) sessions.insert(run.session);
  }
  return sessions;
}

void SchedulerModel::Remove(int worker, int call) {
  workers_[worker].ready = false;
  workers_[worker].leaving.push_back(call);
  Settle();
}

void SchedulerModel::SessionsFenced(const std::set<uint64_t>& sessions) {
  for (const uint64_t session : sessions) fencing_sessions_.erase(session);
  const std::map<uint64_t, ModelRun> before = in_flight_;
  for (const auto& [id, run] : before) {
    if (sessions.count(run.session) == 0) continue;
    PutBack(id);
    needs_fence_ = true;
    if (workers_[run.worker].session == run.session) workers_[run.worker].ready = false;
  }
  Settle();
}

void SchedulerModel::ErrorFenced(int round) {
  if (round == fence_round_ && fencing_) needs_fence_ = fencing_ = false;
  Settle();
}

bool SchedulerModel::IsInFlight(const ModelRun& run) const {
  const auto found = in_flight_.find(run.id);
  return found != in_flight_.end() && found->second.attempt == run.attempt;
}

std::set<uint64_t> SchedulerModel::Answered(const ModelRun& run, ModelAnswer answer,
                                            const std::string& error) {
  if (!IsInFlight(run)) return {};  // it runs, or ran, again
  const int ticket = ticket_of_[run.id];
  ClosureState& closure = closures_[ticket];
  if (answer == ModelAnswer::kBroken) {
    WorkerState& state = workers_[run.worker];
    if (state.session == run.session) state.ready = false;
    const bool is_new = fencing_sessions_.insert(run.session).second;
    Settle();
    return is_new ? std::set<uint64_t>{run.session} : std::set<uint64_t>();
  }
  if (answer == ModelAnswer::kTransient) {
    PutBack(run.id);
  } else {
    const bool failed = answer == ModelAnswer::kFailed;
    if (failed) AddError(error);  // before those of closures that take its result
    int value = ticket + 1;
    for (const int input : closure.inputs) value += std::stoi(closures_[input].result);
    SetResult(ticket, failed ? error : absl::StrCat(value % 997), failed);
    in_flight_.erase(run.id);
    closures_[ticket].state = State::kEnded;
  }
  Settle();
  return {};
}

std::string SchedulerModel::Refusal(const ModelRun& run) const {
  if (queued_.count(run.id) == 0) return "it is not queued";
  if (*queued_.begin() < run.id) return absl::StrCat(*queued_.begin(), " is older");
  if (paused_ || Stops()) return "an error, or a pause, stops the queue";
  const auto state = workers_.find(run.worker);
  if (state == workers_.end() || !state->second.ready) return "the worker takes nothing";
  if (state->second.session != run.session) return "the session is not the worker's";
  if (InFlightOn(run.worker) >= slots_) return "the worker has no free slot";
  if (IsTooFarAhead(run.id)) return "it is too far ahead";
  const uint32_t attempt = closures_[ticket_of_.at(run.id)].attempts + 1;
  return run.attempt == attempt ? "" : absl::StrCat("it should be attempt ", attempt);
}

bool SchedulerModel::IsTooFarAhead(uint64_t id) const {
  for (const auto& [older, ticket] : ticket_of_) {
    if (closures_[ticket].state != State::kEnded && older + ahead_max_ < id) return true;
  }
  return false;
}

void SchedulerModel::Dispatch() {
  while (EraseFirst(expected_, [this](const ModelRun& run) {
    if (!Refusal(run).empty()) return false;
    ClosureState& closure = closures_[ticket_of_[run.id]];
    closure.state = State::kInFlight;
    closure.attempts = run.attempt;
    queued_.erase(run.id);
    in_flight_[run.id] = run;
    return true;
  })) {
  }
}

std::string SchedulerModel::Problem() const {
  if (!expected_.empty()) {
    const ModelRun& run = expected_.front();
    return absl::StrCat("closure ", run.id, " ran on worker:", run.worker, ", attempt ",
                        run.attempt, ", but ", Refusal(run));
  }
  if (queued_.empty() || paused_ || Stops() || IsTooFarAhead(*queued_.begin())) return "";
  for (const auto& [worker, state] : workers_) {
    if (state.ready && InFlightOn(worker) < slots_) {
      return absl::StrCat("closure ", *queued_.begin(), " is queued and worker:", worker, " free");
    }
  }
  return "";
}

std::vector<int> SchedulerModel::Workers(bool ready) const {
  std::vector<int> workers;
  for (const auto& [worker, state] : workers_) {
    if (state.ready == ready) workers.push_back(worker);
  }
  return workers;
}

bool SchedulerModel::HasWaitingCalls() const {
  return !schedules_.empty() || !joins_.empty() || !dones_.empty();
}

void SchedulerModel::Settle(Results failed) {
  RetireLanes();
  ObserveError(failed);
  if (errors_.empty() && IsIdle() && !paused_) {
    for (const int call : std::exchange(joins_, {})) ended_[call] = "OK";
  }
  const std::vector<int> admitted = Admit();
  Dispatch();
  for (const auto& [ticket, error] : failed) SetResult(ticket, error, true);
  for (const int ticket : admitted) Watch(ticket);
}

void SchedulerModel::RetireLanes() {
  for (auto state = workers_.begin(); state != workers_.end();) {
    if (state->second.leaving.empty() || InFlightOn(state->first) > 0) {
      ++state;
      continue;
    }
    for (const int call : state->second.leaving) ended_[call] = "OK";
    state = workers_.erase(state);
  }
}

void SchedulerModel::ObserveError(Results& failed) {
  if (errors_.empty() || !HasWaitingCalls()) return;
  for (std::set<uint64_t>* const ids : {&queued_, &waiting_inputs_}) {
    for (const uint64_t id : std::exchange(*ids, {})) {
      closures_[ticket_of_[id]].state = State::kEnded;
      failed.emplace_back(ticket_of_[id], kCancelled);
    }
  }
  if (!in_flight_.empty()) return;
  if (needs_fence_ && !paused_) {
    fence_round_ += fencing_ ? 0 : 1;
    fencing_ = true;
    return;
  }
  TakeObserver(Text(std::exchange(errors_, {})), failed);
}

void SchedulerModel::TakeObserver(const std::string& error, Results& failed) {
  if (!dones_.empty() || !joins_.empty()) {
    std::deque<int>& calls = dones_.empty() ? joins_ : dones_;
    ended_[calls.front()] = error;
    calls.pop_front();
  } else {
    const auto [call, ticket] = schedules_.front();
    schedules_.pop_front();
    ended_[call] = error;
    closures_[ticket].state = State::kEnded;
    failed.emplace_back(ticket, kCancelled);
  }
  for (const int call : std::exchange(dones_, {})) ended_[call] = "idle";
}

// A join is a cut: what is scheduled while it waits waits too.
std::vector<int> SchedulerModel::Admit() {
  std::vector<int> admitted;
  const auto held = [this] { return queued() + in_flight_.size(); };
  // Who was full has room again when an eighth is free.
  if (held() < bound_ && held() <= bound_ - bound_ / 8) is_full_ = false;
  while (errors_.empty() && joins_.empty() && !schedules_.empty() && !is_full_ && held() < bound_) {
    const auto [call, ticket] = schedules_.front();
    schedules_.pop_front();
    ended_[call] = "OK";
    ClosureState& closure = closures_[ticket];
    closure.id = next_id();
    ticket_of_[closure.id] = ticket;
    closure.inputs_left = closure.inputs.size();
    closure.state = closure.inputs.empty() ? State::kQueued : State::kWaiting;
    (closure.inputs.empty() ? queued_ : waiting_inputs_).insert(closure.id);
    is_full_ = held() >= bound_;
    admitted.push_back(ticket);
  }
  return admitted;
}

void SchedulerModel::Watch(int ticket) {
  const std::vector<int> inputs = closures_[ticket].inputs;
  for (const int input : inputs) {
    if (closures_[input].result.empty()) {
      closures_[input].dependents.push_back(ticket);
    } else {
      OnInput(ticket);
    }
  }
}

void SchedulerModel::OnInput(int ticket) {
  ClosureState& closure = closures_[ticket];
  if (closure.state != State::kWaiting || --closure.inputs_left > 0) return;
  waiting_inputs_.erase(closure.id);
  for (const int input : closure.inputs) {
    if (!closures_[input].failed) continue;
    closure.state = State::kEnded;
    const std::string error =
        absl::StrCat("an argument of closure ", closure.id, ": ", closures_[input].result);
    AddError(error);
    return Settle({{ticket, error}});
  }
  closure.state = State::kQueued;
  queued_.insert(closure.id);
  Settle();
}

void SchedulerModel::SetResult(int ticket, const std::string& result, bool failed) {
  closures_[ticket].result = result;
  closures_[ticket].failed = failed;
  for (const int dependent : std::exchange(closures_[ticket].dependents, {})) OnInput(dependent);
}

void SchedulerModel::PutBack(uint64_t id) {
  in_flight_.erase(id);
  queued_.insert(id);
  closures_[ticket_of_[id]].state = State::kQueued;
}

int SchedulerModel::InFlightOn(int worker) const {
  return static_cast<int>(std::count_if(in_flight_.begin(), in_flight_.end(), [&](const auto& run) {
    return run.second.worker == worker;
  }));
}

}  // namespace cohort
