// The error with which a gang's call ends, of members that say more or less of one cause.

#include "coordinator/schedule/gang_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/coordinator/schedule/scheduler_test_support.h"

namespace cohort {
namespace {

// Returns the text of the error of a gang of two, the first of which reports the second as lost,
// which answers with `own_words`.
std::string ErrorWhereTheLostOneSays(const std::string& own_words) {
  const auto first = std::make_shared<ScriptedChannel>();
  const auto second = std::make_shared<ScriptedChannel>();
  GangChannel gang({{0, 1, Worker(0, 1), first}, {1, 2, Worker(1, 1), second}},
                   [](const std::set<int>&, const absl::Status&) {});
  std::string text = "no answer";
  gang.Start(
      ScriptedChannel::kRun, Pack(Envelope<proto::RunClosureRequest>()), absl::Seconds(1),
      [&](absl::StatusOr<Message> answer) { text = std::string(answer.status().message()); });
  first->AnswerRun(
      WithOrigin(MakeError(absl::StatusCode::kUnavailable, "rank 1 was lost", proto::WORKER_LOST),
                 Worker(1, 1)));
  second->AnswerRun(MakeError(absl::StatusCode::kAborted, own_words, proto::TRANSIENT));
  return text;
}

TEST(GangError, AddsWhatTheMemberThatIsBlamedKnows) {
  EXPECT_EQ(ErrorWhereTheLostOneSays("the disk is full"),
            "rank 1 was lost; worker:1 (incarnation 1) says: the disk is full");
  EXPECT_EQ(ErrorWhereTheLostOneSays("rank 1 was lost, since its disk is full"),
            "rank 1 was lost, since its disk is full");
}

TEST(GangError, SaysNothingTwice) {
  EXPECT_EQ(ErrorWhereTheLostOneSays("rank 1 was lost"), "rank 1 was lost");
  EXPECT_EQ(ErrorWhereTheLostOneSays("generation 3: the group ended: rank 1 was lost"),
            "rank 1 was lost");
}

}  // namespace
}  // namespace cohort
