#pragma once

// Random calls of many callers, answers of workers, losses, additions and removals, one after the
// other, on a scheduler and on a model of it (scheduler_model.h): after each step both must say the
// same. Workers and parameter servers are played here: a worker adds up the arguments of a closure,
// and a run that was not answered, or whose connection broke, may push until it is refused.

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "coordinator/schedule/scheduler.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/world/sim_world.h"
#include "tests/unit/coordinator/schedule/scheduler_model.h"

namespace cohort {

// What workers have been asked and not answered.
struct HeldCalls {
  struct Run {
    ModelRun run;
    Envelope<proto::RunClosureRequest> request;
    Reply done;
  };
  std::deque<Reply> preparations;
  std::vector<Run> runs;
  std::vector<ModelRun> started;  // in the present step
};

// Thread-compatible.
class ModelRunner {
 public:
  explicit ModelRunner(uint64_t seed);
  ~ModelRunner();

  // So many random steps, then everything is brought to its end. What was different, with the steps
  // before it; empty: nothing.
  std::string Run(int steps);

 private:
  using Step = absl::FunctionRef<void()>;

  void RandomStep();
  void Schedule();
  void Fetch();
  void Abandon();
  void Answer(size_t which, ModelAnswer answer);
  void Ready(int worker, uint64_t incarnation);
  void Lose(int worker);
  void CompareFences(size_t before, const std::set<uint64_t>& sessions);
  void Remove(int worker);
  void Fence();
  void Pause();
  // Until nothing is left, with workers that only do what they are asked.
  void BringToAnEnd();

  // The same step on both, then what they show is compared.
  void Both(const std::string& what, Step real, Step model);
  void EndFetches();
  void CheckRuns();
  void Compare();
  int NewCall() { return ++last_call_; }
  Scheduler::Done EndOf(int call);
  void End(int call, const std::string& how);
  bool IsRefused(const ModelRun& run) const;
  void Fail(const std::string& problem);
  int AnyOf(const std::vector<int>& choice);

  struct ErrorFence {
    uint64_t watermark;
    int round;
    Scheduler::Done done;
  };
  struct SessionFence {
    std::set<uint64_t> sessions;
    Scheduler::Done done;
  };

  SequenceRng rng_;
  SimWorld sim_{1};
  SchedulerModel model_;
  HeldCalls held_;
  std::shared_ptr<Scheduler> scheduler_;
  std::shared_ptr<const RegisteredProgram> program_;
  int last_call_ = 0;
  uint64_t last_incarnation_ = 0;
  uint64_t epoch_ = 1;
  std::map<int, WaitId> waits_;                            // by call
  std::map<int, int> fetches_;                             // ticket, by call
  std::vector<std::shared_ptr<RemoteValueState>> values_;  // by ticket; nullptr: nobody wants it
  std::map<int, std::string> ended_;                       // as SchedulerModel::ended
  std::vector<ErrorFence> error_fences_;                   // that were asked for
  std::vector<SessionFence> session_fences_;
  int error_fence_round_ = 0;
  // What parameter servers refuse.
  uint64_t fenced_below_ = 0;
  std::set<uint64_t> fenced_sessions_;
  uint64_t fenced_epochs_ = 0;    // sessions up to here are of an older epoch
  std::vector<ModelRun> broken_;  // nobody knows whether they have ended
  std::vector<std::string> history_;
  std::string problem_;
};

}  // namespace cohort
