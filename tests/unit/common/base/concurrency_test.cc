// Threads, strands and the real clock: everything is awaited by condition, nothing by time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "common/base/strand.h"
#include "common/base/thread_pool.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;

// Lets one thread wait until others counted down. Thread-safe.
class Latch {
 public:
  explicit Latch(int count) : count_(count) {}
  void CountDown() {
    MutexLock lock(mutex_);
    if (--count_ <= 0) zero_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (count_ > 0) zero_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar zero_;
  int count_ ABSL_GUARDED_BY(mutex_);
};

// Keeps tasks until the test runs them. Thread-compatible.
class ManualExecutor final : public Executor {
 public:
  void Run(Task task) override { tasks_.push_back(std::move(task)); }
  bool RunOne() {
    if (tasks_.empty()) return false;
    Task task = std::move(tasks_.front());
    tasks_.erase(tasks_.begin());
    task();
    return true;
  }
  size_t waiting() const { return tasks_.size(); }

 private:
  std::vector<Task> tasks_;
};

TEST(ThreadPool, RunsEveryTaskBeforeItDies) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool({"test", 3});
    for (int i = 0; i < 1000; ++i) pool.Run([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPool, RunsTasksOnAllThreadsAtOnce) {
  ThreadPool pool({"test", 2});
  Latch both(2);
  Latch done(2);
  for (int i = 0; i < 2; ++i) {
    pool.Run([&] {
      both.CountDown();
      both.Wait();  // ends only if the two run at the same time
      done.CountDown();
    });
  }
  done.Wait();
}

TEST(ThreadPool, ATaskMayAddTasks) {
  Latch done(1);
  ThreadPool pool({"test", 1});
  pool.Run([&] { pool.Run([&] { done.CountDown(); }); });
  done.Wait();
}

TEST(ThreadPool, ThreadsAreNamed) {
  char name[16] = {};
  {
    Latch named(1);
    ThreadPool pool({"a-very-long-name", 1});
    pool.Run([&] {
      named.Wait();
      pthread_getname_np(pthread_self(), name, sizeof(name));
    });
    named.CountDown();  // the constructor has set the name before it returns
  }
  EXPECT_STREQ(name, "a-very-long--0");
}

TEST(Strand, KeepsTheOrderOnManyThreads) {
  std::vector<int> seen;  // no lock: the strand is the lock, and ThreadSanitizer watches
  {
    ThreadPool pool({"test", 4});
    Strand strand(pool);
    for (int i = 0; i < 5000; ++i) strand.Post([&seen, i] { seen.push_back(i); });
  }
  ASSERT_EQ(seen.size(), 5000u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(Strand, KeepsTheOrderOfEachPoster) {
  constexpr int kPosters = 4;
  constexpr int kTasks = 2000;
  std::vector<std::pair<int, int>> seen;
  {
    ThreadPool pool({"strands", 3});
    Strand strand(pool);
    ThreadPool posters({"posters", kPosters});
    for (int poster = 0; poster < kPosters; ++poster) {
      posters.Run([&strand, &seen, poster] {
        for (int i = 0; i < kTasks; ++i) {
          strand.Post([&seen, poster, i] { seen.emplace_back(poster, i); });
        }
      });
    }
  }
  ASSERT_EQ(seen.size(), static_cast<size_t>(kPosters * kTasks));
  std::vector<int> next(kPosters, 0);
  for (const auto& [poster, i] : seen) EXPECT_EQ(i, next[static_cast<size_t>(poster)]++);
}

TEST(Strand, NeverRunsATaskInsidePost) {
  ManualExecutor executor;
  Strand strand(executor);
  bool ran = false;
  strand.Post([&] { ran = true; });
  EXPECT_FALSE(ran);
  EXPECT_TRUE(executor.RunOne());
  EXPECT_TRUE(ran);
}

TEST(Strand, APostFromItsOwnTaskRunsAfterIt) {
  ManualExecutor executor;
  Strand strand(executor);
  std::vector<int> seen;
  strand.Post([&] {
    strand.Post([&] { seen.push_back(2); });
    seen.push_back(1);
  });
  while (executor.RunOne()) {
  }
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST(Strand, RunOrPostRunsAtOnceOnlyWhereNothingIsUnderWay) {
  ManualExecutor executor;
  Strand strand(executor);
  std::vector<int> seen;
  strand.RunOrPost([&] {
    strand.RunOrPost([&] { seen.push_back(2); });
    seen.push_back(1);
  });
  EXPECT_THAT(seen, ElementsAre(1, 2));
  strand.Post([&] { seen.push_back(3); });
  strand.RunOrPost([&] { seen.push_back(4); });
  EXPECT_THAT(seen, ElementsAre(1, 2));  // not before what was posted
  EXPECT_TRUE(executor.RunOne());
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4));
}

TEST(Strand, RunOrPostKeepsTheOrderOfEachPoster) {
  constexpr int kPosters = 3;
  constexpr int kTasks = 2000;
  std::vector<std::pair<int, int>> seen;
  {
    ThreadPool pool({"strands", 2});
    Strand strand(pool);
    ThreadPool posters({"posters", kPosters});
    for (int poster = 0; poster < kPosters; ++poster) {
      posters.Run([&strand, &seen, poster] {
        for (int i = 0; i < kTasks; ++i) {
          const auto task = [&seen, poster, i] { seen.emplace_back(poster, i); };
          if (i % 2 == 0) strand.RunOrPost(task);
          if (i % 2 == 1) strand.Post(task);
        }
      });
    }
  }
  ASSERT_EQ(seen.size(), static_cast<size_t>(kPosters * kTasks));
  std::vector<int> next(kPosters, 0);
  for (const auto& [poster, i] : seen) EXPECT_EQ(i, next[static_cast<size_t>(poster)]++);
}

TEST(Strand, ABusyStrandLetsOthersRun) {
  ManualExecutor executor;
  Strand busy(executor);
  Strand other(executor);
  int busy_ran = 0;
  int busy_ran_before_other = -1;
  for (int i = 0; i < 1000; ++i) busy.Post([&] { ++busy_ran; });
  other.Post([&] { busy_ran_before_other = busy_ran; });
  while (executor.RunOne()) {
  }
  EXPECT_EQ(busy_ran, 1000);
  EXPECT_GT(busy_ran_before_other, 0);
  EXPECT_LT(busy_ran_before_other, 1000);
}

TEST(Strand, TasksOutliveTheStrand) {
  ManualExecutor executor;
  int ran = 0;
  {
    Strand strand(executor);
    strand.Post([&] { ++ran; });
    strand.Post([&] { ++ran; });
  }
  while (executor.RunOne()) {
  }
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(executor.waiting(), 0u);
}

TEST(RealClock, RunsTimersInTheOrderOfTheirTimes) {
  std::vector<int> seen;  // only the clock's thread touches it until the latch opens
  Latch done(3);
  RealClock clock;
  const absl::Time start = clock.Now() + absl::Milliseconds(20);
  for (const int i : {2, 0, 1}) {
    clock.CallAt(start + absl::Milliseconds(i), [&, i] {
      seen.push_back(i);
      done.CountDown();
    });
  }
  done.Wait();
  EXPECT_THAT(seen, ElementsAre(0, 1, 2));
}

TEST(RealClock, NeverRunsATimerEarly) {
  Latch done(1);
  RealClock clock;
  const absl::Time when = clock.Now() + absl::Milliseconds(5);
  absl::Time ran_at;
  clock.CallAt(when, [&] {
    ran_at = clock.Now();
    done.CountDown();
  });
  done.Wait();
  EXPECT_GE(ran_at, when);
}

TEST(RealClock, ACancelledTimerNeverRuns) {
  Latch done(1);
  std::atomic<bool> ran{false};
  RealClock clock;
  const TimerId timer = clock.CallAt(clock.Now() + absl::Hours(1), [&] { ran = true; });
  EXPECT_NE(timer.value, 0u);
  EXPECT_TRUE(clock.Cancel(timer));
  EXPECT_FALSE(clock.Cancel(timer));
  EXPECT_FALSE(clock.Cancel(TimerId{}));
  const TimerId past = clock.CallAt(absl::InfinitePast(), [&] { done.CountDown(); });
  done.Wait();
  EXPECT_FALSE(clock.Cancel(past));
  EXPECT_FALSE(ran);
}

TEST(RealClock, AFarTimerHoldsNothingUp) {
  Latch done(1);
  RealClock clock;
  clock.CallAt(absl::InfiniteFuture(), [] { FAIL() << "the end of time"; });
  clock.CallAt(clock.Now() + absl::Milliseconds(1), [&] { done.CountDown(); });
  done.Wait();
}

TEST(RealClock, ATimerMaySetAndCancelTimers) {
  Latch done(1);
  RealClock clock;
  const TimerId far = clock.CallAt(clock.Now() + absl::Hours(1), [] {});
  clock.CallAt(clock.Now(), [&] {
    EXPECT_TRUE(clock.Cancel(far));
    clock.CallAt(clock.Now(), [&] { done.CountDown(); });
  });
  done.Wait();
}

TEST(RealClock, DropsWhatIsPendingWhenItDies) {
  auto owned = std::make_shared<int>(1);
  {
    RealClock clock;
    clock.CallAt(clock.Now() + absl::Hours(1), [owned] {});
    EXPECT_EQ(owned.use_count(), 2);
  }
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace cohort
