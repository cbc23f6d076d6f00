#pragma once

// A closure is one run of a program, or several on consecutive batches: its arguments, its input
// and where its result goes. It is in exactly one state:
//
//   waiting -> queued                  (the results that it takes as arguments are there)
//   queued -> in flight -> done
//     ^           |------> failed      (an application error: recorded, raised by Schedule, Join or
//     Done)
//     |-----------|                    (put back: its worker was lost, or the fault was transient)
//   waiting, queued, in flight -> cancelled     (after another closure's error was observed)
//   in flight -> quarantined           (it ended with too many worker processes: it may have killed
//                                       them; failed, or skipped, as the job says)
//   done -> queued                     (a restore took its effect back: redo_log.h)
//   in flight -> answered -> done      (of a round: its update waits for the others')
//                   |------> queued, cancelled

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "coordinator/schedule/attempts.h"
#include "coordinator/schedule/remote_value.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

// Counts from 1 in the order of scheduling; 0 is none.
struct ClosureId {
  uint64_t value = 0;
  friend bool operator==(ClosureId a, ClosureId b) { return a.value == b.value; }
  friend bool operator<(ClosureId a, ClosureId b) { return a.value < b.value; }
};

// A program that workers can be given: registered on a worker before its first closure there.
// Immutable.
struct RegisteredProgram {
  std::string id;      // content hash
  uint64_t owner = 0;  // incarnation of the coordinator that made it, as in the two below
  proto::RegisterProgramRequest request;  // epoch is filled in when sent
};

// The data that every worker must find, once workers were asked. Thread-safe.
class ExpectedOfWorkers {
 public:
  void Set(proto::ExpectedData expected) {
    MutexLock lock(mutex_);
    expected_ = std::move(expected);
  }
  std::optional<proto::ExpectedData> Get() const {
    MutexLock lock(mutex_);
    return expected_;
  }

 private:
  mutable Mutex mutex_;
  std::optional<proto::ExpectedData> expected_ ABSL_GUARDED_BY(mutex_);
};

// A data set that workers build. Immutable but for what is expected of it.
struct RegisteredDataset {
  uint64_t id = 0;
  uint64_t owner = 0;
  proto::DatasetSpec spec;
  // Shared: closures that name this data set have a const one.
  std::shared_ptr<ExpectedOfWorkers> expected = std::make_shared<ExpectedOfWorkers>();
};

// A data set's iterators, one per worker. Immutable; the resource catalog keeps positions.
struct RegisteredIterator {
  uint64_t id = 0;
  uint64_t owner = 0;
  std::shared_ptr<const RegisteredDataset> dataset;
};

// The same examples on every attempt, wherever it runs.
struct SplitInput {
  std::shared_ptr<const RegisteredDataset> dataset;
  proto::IteratorPosition position;
};

// Programs, data sets and iterators are shared: many closures name one.
using InputChoice =
    std::variant<std::monostate, std::shared_ptr<const RegisteredIterator>, SplitInput>;

// A tensor, or the result of another closure: the tensors that it fetches, in order.
using Argument = std::variant<Tensor, RemoteValue>;

// Synchronous training: closures of a round read the same values, and what the first `aggregate` of
// them push is applied as one, once; what the others push is dropped. All of a round change the
// same variables. A Join waits for as many as the round needs: they are scheduled before it.
struct Round {
  uint64_t number = 0;  // ascends with the closures, and is the optimizer's step; 0: none
  uint32_t aggregate = 1;
};

// A step that a closure of several runs after its first one.
struct LaterStep {
  proto::IteratorPosition position;  // position in the data set of the closure's split
  double learning_rate = 0;
};

// Synchronous training in a group of replicas: a gang closure is run by all members of the group
// or by none. Gangs run strictly in the order of their ids, one after another; the next ones are
// delivered meanwhile (gang_lineup.h). Each is a round of its own. One that changes no variable
// reads what the round of its number reads: it has the number of the next update. Its later steps
// count on, which changes nothing of what they read.

struct Closure {
  ClosureId id;
  std::shared_ptr<const RegisteredProgram> program;
  std::vector<Argument> arguments;  // tensors alone, once it is queued
  size_t inputs_left = 0;           // arguments that are not there yet
  InputChoice input;
  // The element that it read of its iterator when it was done, and reads when it runs again.
  std::optional<SplitInput> taken;
  double learning_rate = 0;
  uint64_t step = 0;
  // when it was first sent: the time of its steps in every run
  absl::Time time = absl::InfinitePast();
  Round round;
  bool gang = false;
  // Further steps. The closure has as many ids as steps, from its own on, and as many steps and,
  // for a gang, rounds: each step leaves behind what a closure of its own would leave.
  std::vector<LaterStep> later_steps;
  // Steps that have ended well and run again only after a restore; and what they fetched.
  size_t steps_done = 0;
  FetchedTensors fetched;
  bool round_applied = false;  // as a worker reports of the closure's last run
  uint32_t attempt = 0;        // counts from 1 when it first runs
  AttemptRecord record;        // how its attempts ended, those that a restore took back left out
  bool replayable = true;      // false: it must not begin twice, and is lost where it would have to
  bool begun = false;          // a worker was told to run it
  absl::Time deadline = absl::InfiniteFuture();  // not done by then is failed
  std::weak_ptr<RemoteValueState> result;

  size_t num_steps() const { return 1 + later_steps.size(); }
  // Counts steps that have ended well; a failure concerns another step now.
  void TakeSteps(size_t steps, FetchedTensors fetches);
  // Forgets that, so that after a restore all of its steps run.
  void ForgetSteps();
};

// Returns the error of a closure that would have to begin twice, and must not. `why`: why it would.
absl::Status LostForGood(const Closure& closure, absl::string_view why);

}  // namespace cohort
