#pragma once

// A closure is one run of a program, or several runs on consecutive batches, with its arguments,
// its input and the place of its result. A closure is in exactly one state:
//
//   waiting -> queued                  (the results that it takes as arguments have arrived)
//   queued -> in flight -> done
//     ^           |------> failed      (an application error: recorded, and raised by Schedule,
//     |           |                     Join or Done)
//     |-----------|                    (put back: its worker was lost, or the fault was transient)
//   waiting, queued, in flight -> cancelled     (after another closure's error was observed)
//   in flight -> quarantined           (too many worker processes ended with the closure, which may
//                                       have killed them; failed or skipped, as the job says)
//   done -> queued                     (a restore took its effect back: redo_log.h)
//   in flight -> answered -> done      (a closure of a round: the update of the round waits for
//                   |------> queued, cancelled          the other closures of the round)

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "coordinator/schedule/attempts.h"
#include "coordinator/schedule/closure_request.h"
#include "coordinator/schedule/remote_value.h"
#include "proto/plan.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

// A program that is registered with the coordinator. Each worker gets the program before its first
// closure that runs it. Immutable.
struct RegisteredProgram {
  std::string id;  // content hash of the program
  // Incarnation of the coordinator that registered the program. RegisteredDataset::owner and
  // RegisteredIterator::owner are the same for data sets and iterators.
  uint64_t owner = 0;
  proto::RegisterProgramRequest request;  // the request's epoch is set when it is sent
};

// The first worker's answer about a data set: its length and types. The answers of all other
// workers must be equal to it. Empty until a worker has answered. Thread-safe.
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

// A data set that workers build. Immutable except for `expected`.
struct RegisteredDataset {
  uint64_t id = 0;
  uint64_t owner = 0;
  proto::DatasetSpec spec;
  // A pointer: closures hold this data set as const, and the expected answer is set later.
  std::shared_ptr<ExpectedOfWorkers> expected = std::make_shared<ExpectedOfWorkers>();
};

// The iterators of a data set, one on each worker. Immutable; the resource catalog keeps their
// positions.
struct RegisteredIterator {
  uint64_t id = 0;
  uint64_t owner = 0;
  std::shared_ptr<const RegisteredDataset> dataset;
};

// Gangs are the closures of synchronous training in a group of replicas: all members of the group
// run a gang, or none does. Gangs run one after another, strictly in the order of their ids; while
// one runs, the next are already sent to the workers (gang_lineup.h). Each gang is a round of its
// own. A gang that changes no variable has the round number of the next update, and reads the
// values that the next update builds on. Later steps of such a gang have the following round
// numbers, and read the same values.

struct Closure {
  ClosureId id;
  std::shared_ptr<const RegisteredProgram> program;
  // The arguments of the program; all are tensors once the closure is queued.
  std::vector<Argument> arguments;
  size_t inputs_left = 0;  // number of results among the arguments that are not ready
  InputChoice input;
  // The element that the closure read from its iterator when it was done. A replay of the closure
  // reads the same element again.
  std::optional<SplitInput> taken;
  double learning_rate = 0;
  uint64_t step = 0;
  // The time when the closure was first sent to a worker. Every later run of the closure uses the
  // same time.
  absl::Time time = absl::InfinitePast();
  Round round;
  bool gang = false;
  // The steps after the first. A closure with n steps takes n consecutive ids, beginning with
  // its own, and n consecutive step numbers; a gang also takes n consecutive rounds. Each step has
  // the effect of a separate closure.
  std::vector<LaterStep> later_steps;
  // The number of steps that have ended well, and the tensors that these steps fetched. Such steps
  // run again only after a restore.
  size_t steps_done = 0;
  FetchedTensors fetched;
  // True if, in the closure's last run, a worker reported that the closure's round was applied.
  bool round_applied = false;
  uint32_t attempt = 0;  // number of the closure's last attempt, from 1
  // The record of how attempts ended, except those that a restore took back.
  AttemptRecord record;
  // If false, the closure must not be sent to a worker a second time. If it would have to be, it
  // fails with the error of LostForGood.
  bool replayable = true;
  bool begun = false;  // whether a worker was told to run the closure
  // Every closure with a lower id than this one had ended when the closure was scheduled, so the
  // closure may count on their effects. After a restore it waits until they have run again.
  ClosureId after;
  // The time by which the closure must be done, or it fails.
  absl::Time deadline = absl::InfiniteFuture();
  std::weak_ptr<RemoteValueState> result;

  size_t num_steps() const { return 1 + later_steps.size(); }
  // Counts `steps` more steps of the closure as ended well, and adds what they fetched. Begins a
  // new record of attempts, because a later failure concerns another step.
  void TakeSteps(size_t steps, FetchedTensors fetches);
  // Forgets which steps have ended well. Called when a restore takes back their effect, so that all
  // steps run again.
  void ForgetSteps();
};

// Returns the error of a closure that must not run a second time, but would have to. `why` says how
// its first run was lost.
absl::Status LostForGood(const Closure& closure, absl::string_view why);

}  // namespace cohort
