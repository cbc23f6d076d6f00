#include "common/base/turns.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace cohort {

namespace {

constexpr uint64_t kShortNanoseconds = 100'000;  // the kernel accepts no shorter time slices
constexpr uint64_t kLongNanoseconds = 3'000'000;
// The number of steps by which a thread with short time slices lowers its niceness. 19 steps give a
// thread 70 times the share of other threads. With 15 steps (28 times the share), one small call in
// a hundred still waits for a scheduler tick.
constexpr int kShortNiceSteps = 19;

// The kernel's struct sched_attr, which the C library does not declare.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t turn_nanoseconds = 0;  // length of a time slice; 0 means the system's default length
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

uint64_t NanosecondsOf(Turns turns) {
  switch (turns) {
    case Turns::kShort:
      return kShortNanoseconds;
    case Turns::kUsual:
      return 0;
    case Turns::kLong:
      return kLongNanoseconds;
  }
  return 0;
}

}  // namespace

void SetTurns(Turns turns) {
  // The niceness with which the process was started is read at the first call, before any change,
  // so that kUsual can restore the niceness.
  static const int nice_of_process = getpriority(PRIO_PROCESS, 0);
  // A thread with another scheduling policy is left unchanged, because the policy was set from
  // outside this process.
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  SchedulingAttributes attributes;
  attributes.nice = nice_of_process;
  if (turns == Turns::kShort) attributes.nice = std::max(nice_of_process - kShortNiceSteps, -20);
  attributes.turn_nanoseconds = NanosecondsOf(turns);
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  // The call fails if this process may not lower its niceness. In this case only the length of the
  // time slices is set.
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  // A failure of this second call is ignored: calls may wait longer for a processor, but their
  // results stay the same.
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace cohort
