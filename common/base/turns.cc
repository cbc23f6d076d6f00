#include "common/base/turns.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace cohort {

namespace {

constexpr uint64_t kShortNanoseconds = 100'000;  // the kernel takes none that is shorter
constexpr uint64_t kLongNanoseconds = 3'000'000;
// Seventy times the share of the others. With 15 steps (28 times) a hundredth of the small calls
// still wait for a tick.
constexpr int kShortNiceSteps = 19;

// The kernel's struct sched_attr; the C library has none.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t turn_nanoseconds = 0;  // 0: the system's
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
  static const int nice_of_process = getpriority(PRIO_PROCESS, 0);
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  SchedulingAttributes attributes;
  attributes.nice = nice_of_process;
  if (turns == Turns::kShort) attributes.nice = std::max(nice_of_process - kShortNiceSteps, -20);
  attributes.turn_nanoseconds = NanosecondsOf(turns);
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  // A failure is ignored: without the permission, calls wait longer and results stay the same.
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace cohort
