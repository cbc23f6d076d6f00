#include "common/cluster/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace cohort {
namespace {

TEST(SignalWaiter, GivesTheSignalThatCame) {
  SignalWaiter waiter;
  kill(getpid(), SIGTERM);
  EXPECT_EQ(waiter.Wait(), SIGTERM);
  kill(getpid(), SIGINT);
  EXPECT_EQ(waiter.Wait(), SIGINT);
}

// A terminal that closes sends SIGHUP, which nohup has a process ignore.
TEST(SignalWaiterDeathTest, AHangupIsASignalUnlessTheProcessIgnoresIt) {
  for (const bool ignored : {false, true}) {
    EXPECT_EXIT(
        {
          signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);
          SignalWaiter waiter;
          kill(getpid(), SIGHUP);
          if (ignored) waiter.Wake();
          _exit(waiter.Wait());
        },
        ::testing::ExitedWithCode(ignored ? 0 : SIGHUP), "");
  }
  EXPECT_STREQ(SignalName(SIGHUP), "SIGHUP");
}

TEST(SignalWaiter, IsWokenFromAnotherThread) {
  SignalWaiter waiter;
  std::thread other([&] { waiter.Wake(); });
  EXPECT_EQ(waiter.Wait(), 0);
  other.join();
}

TEST(SignalWaiter, WakeBeforeWaitIsNotLost) {
  SignalWaiter waiter;
  waiter.Wake();
  waiter.Wake();
  EXPECT_EQ(waiter.Wait(), 0);
}

TEST(SignalWaiter, ThreadsMadeLaterDoNotTakeTheSignal) {
  SignalWaiter waiter;
  sigset_t blocked;
  std::thread([&] { pthread_sigmask(SIG_BLOCK, nullptr, &blocked); }).join();
  EXPECT_TRUE(sigismember(&blocked, SIGTERM));
  EXPECT_TRUE(sigismember(&blocked, SIGINT));
}

TEST(SignalWaiterDeathTest, ASecondInterruptEndsTheProcess) {
  EXPECT_EXIT(
      {
        SignalWaiter waiter;
        kill(getpid(), SIGINT);
        waiter.Wait();
        kill(getpid(), SIGINT);
        waiter.Wait();
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(SignalWaiterDeathTest, WhatComesWhileTheProcessEndsDoesNotKillIt) {
  for (const int first : {SIGTERM, 0}) {
    for (const int second : {SIGTERM, SIGINT}) {
      EXPECT_EXIT(
          {
            {
              SignalWaiter waiter;
              if (first == 0) waiter.Wake();
              if (first != 0) kill(getpid(), first);
              if (waiter.Wait() != first) _exit(1);
              kill(getpid(), second);
            }
            exit(0);
          },
          ::testing::ExitedWithCode(0), "")
          << first << " " << second;
    }
  }
}

}  // namespace
}  // namespace cohort
