// What the kernel says of threads that asked for other turns.

#include "common/base/turns.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <thread>

#include "common/base/thread_pool.h"

namespace cohort {
namespace {

struct Scheduled {
  int nice = 0;
  uint64_t turn_nanoseconds = 0;  // 0: the kernel gives all threads the same
};

// Of the calling thread.
Scheduled Now() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t turn_nanoseconds, deadline, period;
  } attributes = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), 0);
  return {attributes.nice, attributes.turn_nanoseconds};
}

Scheduled After(Turns turns) {
  Scheduled scheduled;
  std::thread([&] {
    SetTurns(turns);
    scheduled = Now();
  }).join();
  return scheduled;
}

TEST(Turns, ShortOnesAreShorterThanUsualOnesAndThoseThanLongOnes) {
  const Scheduled usual = After(Turns::kUsual);
  if (usual.turn_nanoseconds == 0) GTEST_SKIP() << "a kernel without turns of a thread's own";
  EXPECT_LT(After(Turns::kShort).turn_nanoseconds, usual.turn_nanoseconds);
  EXPECT_GT(After(Turns::kLong).turn_nanoseconds, After(Turns::kShort).turn_nanoseconds);
}

TEST(Turns, ShortOnesComeWithAGreaterShareWhereTheProcessMayHaveIt) {
  const int nice = After(Turns::kUsual).nice;
  EXPECT_EQ(After(Turns::kLong).nice, nice);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NICE, &limit), 0);
  const int short_nice = After(Turns::kShort).nice;
  if (geteuid() != 0 && limit.rlim_cur < 40) {
    EXPECT_EQ(short_nice, nice);  // and nothing else changes
  } else {
    EXPECT_EQ(short_nice, std::max(nice - 19, -20));
  }
}

TEST(Turns, UsualOnesAreWhatTheProcessWasStartedWith) {
  const Scheduled before = After(Turns::kUsual);
  Scheduled inherited, reset;
  std::thread([&] {
    SetTurns(Turns::kShort);
    std::thread([&] {
      inherited = Now();
      SetTurns(Turns::kUsual);
      reset = Now();
    }).join();
  }).join();
  EXPECT_EQ(inherited.nice, After(Turns::kShort).nice);
  EXPECT_EQ(reset.nice, before.nice);
  EXPECT_EQ(reset.turn_nanoseconds, before.turn_nanoseconds);
}

TEST(Turns, AreThoseOfWhoStartsAThreadUnlessAPoolSaysOtherwise) {
  Scheduled inherited, own, usual = After(Turns::kUsual);
  std::thread([&] {
    SetTurns(Turns::kShort);
    ThreadPool plain({"plain", 1});
    ThreadPool computing({"computing", 1, Turns::kUsual});
    plain.Run([&] { inherited = Now(); });
    computing.Run([&] { own = Now(); });
  }).join();
  EXPECT_EQ(inherited.turn_nanoseconds, After(Turns::kShort).turn_nanoseconds);
  EXPECT_EQ(own.turn_nanoseconds, usual.turn_nanoseconds);
}

}  // namespace
}  // namespace cohort
