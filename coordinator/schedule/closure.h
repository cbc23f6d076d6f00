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

// The id of a closure. Ids count from 1 in the order of scheduling; 0 means no closure.
struct ClosureId {
  uint64_t value = 0;
  friend bool operator==(ClosureId a, ClosureId b) { return a.value == b.value; }
  friend bool operator<(ClosureId a, ClosureId b) { return a.value < b.value; }
};

// A program that workers can be given. Each worker gets the program before the first closure that
// needs the program. Immutable.
struct RegisteredProgram {
  std::string id;  // content hash of the program
  // Incarnation of the coordinator that made the program. The member `owner` of the next two
  // structs means the same for data sets and iterators.
  uint64_t owner = 0;
  proto::RegisterProgramRequest request;  // the epoch is filled in when the request is sent
};

// The first worker's answer about a data set, which the answers of all other workers must match.
// Empty until a worker has answered. Thread-safe.
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
  // Shared, because closures hold this data set as const and `expected` is set later.
  std::shared_ptr<ExpectedOfWorkers> expected = std::make_shared<ExpectedOfWorkers>();
};

// The iterators of a data set, one on each worker. Immutable; the resource catalog keeps their
// positions.
struct RegisteredIterator {
  uint64_t id = 0;
  uint64_t owner = 0;
  std::shared_ptr<const RegisteredDataset> dataset;
};

// An input that names a position in a data set: every attempt reads the same examples, on whichever
// worker it runs.
struct SplitInput {
  std::shared_ptr<const RegisteredDataset> dataset;
  proto::IteratorPosition position;
};

// The input of a closure: none, the next element of an iterator, or a fixed position. Data sets and
// iterators are shared, because many closures name the same one.
using InputChoice =
    std::variant<std::monostate, std::shared_ptr<const RegisteredIterator>, SplitInput>;

// An argument of a closure: a tensor, or the result of another closure, which stands for the
// tensors that the other closure fetches, in order.
using Argument = std::variant<Tensor, RemoteValue>;

// The round of a closure in synchronous training. All closures of a round read the same values and
// change the same variables. The pushes of the first `aggregate` closures are applied once, as a
// single update; later pushes of the round are dropped. A Join waits until `aggregate` closures
// have ended, so at least that many must be scheduled before the Join.
struct Round {
  uint64_t number = 0;  // ascends with the ids of closures and is the optimizer's step; 0: no round
  uint32_t aggregate = 1;
};

// A step of a closure with several steps; every step except the first one has a LaterStep.
struct LaterStep {
  proto::IteratorPosition position;  // position in the data set of the closure's SplitInput
  double learning_rate = 0;
};

// Synchronous training in a group of replicas: all members of the group run a gang closure, or none
// does. Gangs run one after another, strictly in the order of their ids; the next gangs are
// delivered to the workers meanwhile (gang_lineup.h). Each gang is a round of its own. A gang that
// changes no variable has the number of the next update, and reads the values that the next
// update's round reads. Later steps of such a gang count on from that number, which does not change
// what they read.

struct Closure {
  ClosureId id;
  std::shared_ptr<const RegisteredProgram> program;
  std::vector<Argument> arguments;  // once the closure is queued, every argument is a tensor
  size_t inputs_left = 0;           // number of arguments that have not arrived yet
  InputChoice input;
  // The element that the closure read from its iterator when it was done; a replay reads the same
  // element again.
  std::optional<SplitInput> taken;
  double learning_rate = 0;
  uint64_t step = 0;
  // The time when the closure was first sent, which every run of the closure uses for its steps.
  absl::Time time = absl::InfinitePast();
  Round round;
  bool gang = false;
  // The steps after the first one. The closure takes as many consecutive ids as it has steps,
  // starting with its own, and as many step numbers; a gang also takes as many rounds. Each step
  // has the same effect as a closure of its own would have.
  std::vector<LaterStep> later_steps;
  // The number of steps that have ended well, which run again only after a restore, and the tensors
  // that these steps fetched.
  size_t steps_done = 0;
  FetchedTensors fetched;
  // True if a worker reported, in the closure's last run, that the round was applied.
  bool round_applied = false;
  uint32_t attempt = 0;  // number of the closure's last attempt, from 1
  AttemptRecord record;  // how the attempts ended, without attempts that a restore took back
  // If false, the closure must not begin a second time: instead it fails with the error of
  // LostForGood.
  bool replayable = true;
  bool begun = false;                            // whether a worker was told to run the closure
  absl::Time deadline = absl::InfiniteFuture();  // the closure fails if it is not done by this time
  std::weak_ptr<RemoteValueState> result;

  size_t num_steps() const { return 1 + later_steps.size(); }
  // Counts `steps` more steps as ended well, and begins a new record of attempts, because a later
  // failure concerns another step.
  void TakeSteps(size_t steps, FetchedTensors fetches);
  // Forgets which steps have ended well, so that all steps run after a restore.
  void ForgetSteps();
};

// Returns the error of a closure that must not begin twice, but would have to because of `why`.
absl::Status LostForGood(const Closure& closure, absl::string_view why);

}  // namespace cohort
