#pragma once

// A rank of a group in shared memory that is a process and does what a test tells it: so the test
// knows at which step of which barrier it dies, or stands until it is told to go on.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/unique_fd.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "worker/collective/shm/shm_barrier.h"

namespace cohort {

// A call of all ranks, what goes into it and what must come out.
struct Work {
  std::vector<CollectiveCall> calls;  // by rank, without memory
  std::vector<Bytes> inputs;
  std::vector<Bytes> wanted;
};

Work MakeWork(std::vector<CollectiveCall> calls);

// Bytes of a pipe.
struct RankOrder {
  enum class What : int {
    kJoin,  // another group; the one before ends
    kCall,  // `calls` calls one after the other: works[first_work] and on, in a circle of `works`
    kGoOn,  // from where it stands
  };
  enum class Then : int { kNothing, kDie, kStand };

  What what = What::kCall;
  // To join.
  int rank = 0;
  int size = 0;
  uint64_t generation = 0;
  char socket[80] = {};
  int dies_before_message = -1;  // of those with which it joins; -1: it does not
  int join_timeout_ms = 60'000;
  // To call. What happens at this step of barrier number `barrier` from now on, 0 being the next.
  int first_work = 0;
  int works = 1;
  int calls = 1;
  Then then = Then::kNothing;
  BarrierStep step = BarrierStep::kReaches;
  int barrier = 0;
};

struct RankReport {
  enum class Kind : int { kNone, kJoined, kStands, kEnded };

  Kind kind = Kind::kNone;
  int complete = 0;  // calls of the order, with the right bits
  int barriers = 0;  // that the rank has passed in them
  int code = 0;      // of the group's joining, or of the call that failed
  char message[700] = {};
};

// The process, seen from the test, which has no threads. Thread-compatible.
class ToldRank {
 public:
  // `works` are the test's at this moment.
  explicit ToldRank(const std::vector<Work>& works);
  ~ToldRank();
  ToldRank(const ToldRank&) = delete;
  ToldRank& operator=(const ToldRank&) = delete;

  void Tell(const RankOrder& order) const;
  // kNone when the process has ended, or says nothing for a minute: then it hangs, and dies.
  RankReport Hear();
  // As a process dies.
  void Kill();
  // It has died, or is about to, as it was told.
  void ExpectDeath();

 private:
  pid_t pid_ = -1;
  UniqueFd orders_;
  UniqueFd reports_;
  bool dead_ = false;
};

}  // namespace cohort
