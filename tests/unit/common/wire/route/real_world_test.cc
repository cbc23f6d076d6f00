// The end of a daemon's World, whose parts use each other.

// ThreadSanitizer does not see what libgrpc synchronises (docs/TESTING.md).
#ifndef __SANITIZE_THREAD__

#include "common/wire/route/real_world.h"

#include <atomic>

#include "common/base/event.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

// A recovery that was under way when a job ended began a claim after the network had gone.
TEST(RealWorldTest, WhatThePoolStillRunsAtTheEndMayBeginCalls) {
  Event begun;
  std::atomic<int> answers{0};
  {
    RealWorld world(1);
    const World parts = world.world();
    parts.executor.Run([&begun, &answers, parts] {
      begun.Notify();
      // The calls are all begun by tasks that were queued before the end or by such tasks.
      parts.executor.Run([&answers, parts] {
        const auto channel = parts.transport.Connect("127.0.0.1:1", Lane::kControl);
        channel->Start("/nothing", Message(), absl::Seconds(60),
                       [&answers, channel](const absl::StatusOr<Message>& answer) {
                         EXPECT_FALSE(answer.ok());
                         ++answers;
                       });
      });
    });
    begun.WaitFor(absl::InfiniteDuration());
  }
  EXPECT_EQ(answers, 1);
}

}  // namespace
}  // namespace cohort

#endif  // __SANITIZE_THREAD__
