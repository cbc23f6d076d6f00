// When a channel leaves its connection for another one. Time is moved by hand.

#include "common/wire/route/renewed_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "common/wire/method_table.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A connection whose calls end when the test says so, or are cancelled.
class HeldChannel final : public Channel {
 public:
  std::unique_ptr<Call> Start(absl::string_view, Message, absl::Duration, Reply done) override {
    class HeldCall final : public Call {
     public:
      HeldCall(HeldChannel& channel, size_t call) : channel_(channel), call_(call) {}
      void Cancel() override { channel_.End(call_, absl::CancelledError("cancelled")); }

     private:
      HeldChannel& channel_;
      const size_t call_;
    };
    open.push_back(std::move(done));
    return std::make_unique<HeldCall>(*this, open.size() - 1);
  }

  void End(size_t call, absl::StatusOr<Message> result) {
    if (open[call] != nullptr) std::exchange(open[call], nullptr)(std::move(result));
  }

  absl::Duration SinceProgress() const override { return since_progress; }

  std::vector<Reply> open;
  absl::Duration since_progress = absl::InfiniteDuration();
};

class RenewedChannelTest : public testing::Test {
 protected:
  RenewedChannelTest()
      : channel_(std::make_shared<RenewedChannel>(
            RenewedChannel::Options{"host:1",
                                    [this] {
                                      lines_.push_back(std::make_shared<HeldChannel>());
                                      return lines_.back();
                                    },
                                    [this] { return now_; }})) {}

  // The place of its end in ends_.
  size_t Start() {
    const size_t place = ends_.size();
    ends_.push_back(absl::UnknownError("no end"));
    calls_.push_back(channel_->Start(
        "/a.B/C", Message{}, absl::Seconds(1),
        [this, place](const absl::StatusOr<Message>& result) { ends_[place] = result.status(); }));
    return place;
  }
  void Pass(std::chrono::milliseconds time) { now_ += time; }
  static absl::Status Late() { return NoAnswerInTime("/a.B/C"); }

  RenewedChannel::Time now_{};
  std::vector<std::shared_ptr<HeldChannel>> lines_;
  std::vector<absl::Status> ends_;
  std::vector<std::unique_ptr<Call>> calls_;
  const std::shared_ptr<RenewedChannel> channel_;
};

TEST_F(RenewedChannelTest, AMalformedMessageEndsItsConnection) {
  Start();
  Start();
  lines_[0]->End(0, MalformedMessage("its sum differs"));
  EXPECT_TRUE(IsMalformed(ends_[0])) << ends_[0];
  EXPECT_THAT(std::string(ends_[0].message()),
              AllOf(HasSubstr("host:1"), HasSubstr("/a.B/C"), HasSubstr("its sum differs")));
  EXPECT_TRUE(absl::IsUnavailable(ends_[1])) << "as if the connection had broken: " << ends_[1];
  EXPECT_THAT(std::string(ends_[1].message()), HasSubstr("malformed"));
  ASSERT_EQ(lines_.size(), 2u);
  Start();
  lines_[1]->End(0, Message{});
  EXPECT_TRUE(ends_[2].ok());
}

TEST_F(RenewedChannelTest, TimeOutsInARowEndASilentConnection) {
  for (int i = 0; i < 3; ++i) Start();
  Pass(kSilenceMax);
  lines_[0]->End(0, Late());
  EXPECT_EQ(lines_.size(), 1u) << "one call may have been given too little time";
  lines_[0]->End(1, Late());
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(ends_[1])) << ends_[1];
  EXPECT_TRUE(absl::IsUnavailable(ends_[2])) << ends_[2];
}

TEST_F(RenewedChannelTest, OneThatAnswersStays) {
  for (int i = 0; i < 4; ++i) Start();
  Pass(kSilenceMax);
  lines_[0]->End(0, Late());
  lines_[0]->End(1, absl::InvalidArgumentError("an answer too"));
  lines_[0]->End(2, Late());
  lines_[0]->End(3, Late());
  EXPECT_EQ(lines_.size(), 1u) << "it has answered just now";
}

// Short calls run out of time beside a large message that a slow link carries.
TEST_F(RenewedChannelTest, OneWhoseBytesMoveStaysUntilTheyMoveNoMore) {
  for (int i = 0; i < 5; ++i) Start();
  Pass(10 * kSilenceMax);
  lines_[0]->since_progress = absl::FromChrono(kSilenceMax) - absl::Milliseconds(1);
  EXPECT_EQ(channel_->SinceProgress(), lines_[0]->since_progress);
  for (size_t i = 0; i < 3; ++i) lines_[0]->End(i, Late());
  EXPECT_EQ(lines_.size(), 1u);
  lines_[0]->since_progress = absl::FromChrono(kSilenceMax);
  lines_[0]->End(3, Late());
  EXPECT_EQ(lines_.size(), 2u);
  EXPECT_TRUE(absl::IsUnavailable(ends_[4])) << ends_[4];
}

TEST_F(RenewedChannelTest, TimeOutsWithAnAnswerBetweenThemAreNotInARow) {
  for (int i = 0; i < 3; ++i) Start();
  lines_[0]->End(0, Late());
  lines_[0]->End(1, Message{});
  Pass(kSilenceMax);
  lines_[0]->End(2, Late());
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(RenewedChannelTest, ShortCallsThatRunOutOfTimeSoonSayNothing) {
  for (int i = 0; i < 10; ++i) Start();
  Pass(kSilenceMax - std::chrono::milliseconds(1));
  for (size_t i = 0; i < 10; ++i) lines_[0]->End(i, Late());
  EXPECT_EQ(lines_.size(), 1u);
}

// The silence begins with the first call, not with the last answer before it.
TEST_F(RenewedChannelTest, AnIdleConnectionIsNotSilent) {
  Start();
  lines_[0]->End(0, Message{});
  Pass(10 * kSilenceMax);
  Start();
  Start();
  Pass(std::chrono::milliseconds(10));
  lines_[0]->End(1, Late());
  lines_[0]->End(2, Late());
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(RenewedChannelTest, AConnectionThatBreaksConnectsAgainByItself) {
  Start();
  lines_[0]->End(0, absl::UnavailableError("connection refused"));
  EXPECT_EQ(lines_.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(ends_[0]));
}

TEST_F(RenewedChannelTest, WhatItsCallerCancelsIsCancelled) {
  Start();
  calls_[0]->Cancel();
  EXPECT_TRUE(absl::IsCancelled(ends_[0])) << ends_[0];
  EXPECT_EQ(lines_.size(), 1u);
}

}  // namespace
}  // namespace cohort
