// What a step shows on the scheduler and on its model.

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/unit/coordinator/schedule/model_runner.h"

namespace cohort {

namespace {

std::string Text(const absl::StatusOr<FetchedTensors>& result) {
  if (!result.ok()) return std::string(result.status().message());
  return absl::StrCat(static_cast<int>(*result->at(0).data<float>()));
}

template <typename Key>
std::string OrNothing(const std::map<Key, std::string>& texts, const Key& key) {
  const auto found = texts.find(key);
  return found == texts.end() ? "nothing" : found->second;
}

}  // namespace

void ModelRunner::Fail(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
}

int ModelRunner::AnyOf(const std::vector<int>& choice) { return choice[rng_.Below(choice.size())]; }

void ModelRunner::Both(const std::string& what, Step real, Step model) {
  history_.push_back(what);
  held_.started.clear();
  real();
  while (!held_.preparations.empty()) {
    Reply prepared = std::move(held_.preparations.front());
    held_.preparations.pop_front();
    prepared(Message{});
  }
  CheckRuns();
  model_.Expect(held_.started);
  model();
  EndFetches();
  Compare();
}

void ModelRunner::EndFetches() {
  for (auto fetch = fetches_.begin(); fetch != fetches_.end();) {
    RemoteValueState& value = *values_[fetch->second];
    if (!value.IsReady()) {
      ++fetch;
      continue;
    }
    scheduler_->EndFetch();
    ended_[fetch->first] = Text(value.result());
    fetch = fetches_.erase(fetch);
  }
  model_.EndFetches();
}

Scheduler::Done ModelRunner::EndOf(int call) {
  return [this, call](const absl::Status& status) {
    End(call, status.ok() ? "OK" : std::string(status.message()));
  };
}

void ModelRunner::End(int call, const std::string& how) {
  history_.push_back(absl::StrCat("  ", call, " ended: ", how));
  if (!ended_.emplace(call, how).second) Fail(absl::StrCat("call ", call, " ended twice"));
  if (how == "OK" || how == "idle" || how == "busy") return;
  // Whoever was raised an error may go on as if nothing were under way.
  for (const HeldCalls::Run& open : held_.runs) broken_.push_back(open.run);
  for (const ModelRun& run : broken_) {
    if (IsRefused(run)) continue;
    Fail(absl::StrCat("call ", call, " was raised an error while closure ", run.id,
                      " may be pushed by worker:", run.worker));
  }
  broken_.clear();
}

bool ModelRunner::IsRefused(const ModelRun& run) const {
  return run.id < fenced_below_ || run.session <= fenced_epochs_ ||
         fenced_sessions_.count(run.session) > 0;
}

void ModelRunner::CheckRuns() {
  for (const ModelRun& run : held_.started) {
    for (const ModelRun& before : broken_) {
      if (before.id != run.id || IsRefused(before)) continue;
      Fail(absl::StrCat("closure ", run.id, " runs again while worker:", before.worker,
                        " may still push it"));
    }
    history_.push_back(absl::StrCat("  closure ", run.id, " attempt ", run.attempt,
                                    " runs on worker:", run.worker, " session ", run.session));
    for (const HeldCalls::Run& open : held_.runs) {
      if (open.run.id != run.id || open.run.attempt == run.attempt || IsRefused(open.run)) continue;
      Fail(absl::StrCat("closure ", run.id, " runs again while worker:", open.run.worker,
                        " may push it"));
    }
  }
}

void ModelRunner::Compare() {
  if (const std::string wrong = model_.Problem(); !wrong.empty()) return Fail(wrong);
  if (ended_ != model_.ended()) {
    for (int call = 1; call <= last_call_; ++call) {
      const std::string real = OrNothing(ended_, call), model = OrNothing(model_.ended(), call);
      if (real == model) continue;
      return Fail(
          absl::StrCat("call ", call, " ended with '", real, "', by the model '", model, "'"));
    }
  }
  for (size_t ticket = 0; ticket < values_.size(); ++ticket) {
    if (values_[ticket] == nullptr) continue;
    const std::string real = values_[ticket]->IsReady() ? Text(values_[ticket]->result()) : "";
    const std::string model = model_.ResultOf(static_cast<int>(ticket));
    if (real == model) continue;
    return Fail(absl::StrCat("result ", ticket, " is '", real, "', by the model '", model, "'"));
  }
  const Scheduler::Stats stats = scheduler_->stats();
  const auto differs = [&](absl::string_view what, size_t real, size_t model) {
    if (real != model) Fail(absl::StrCat(what, ": ", real, ", by the model ", model));
  };
  differs("queued", stats.queued, model_.queued());
  differs("in flight", stats.in_flight, model_.in_flight());
  differs("workers ready", static_cast<size_t>(stats.workers_ready), model_.Workers(true).size());
  differs("fences for an error", static_cast<size_t>(error_fence_round_),
          static_cast<size_t>(model_.fence_round()));
  if (stats.queued + stats.in_flight > model_.bound()) Fail("more closures than the bound");
}

}  // namespace cohort
