// What the kernel says of threads that asked for other turns.

#include "common/base/turns.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

TEST(Turns, LeaveThePriorityAsItIs) {
  const int nice = Now().nice;
  for (const Turns turns : {Turns::kShort, Turns::kUsual, Turns::kLong}) {
    EXPECT_EQ(After(turns).nice, nice);
  }
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
