#include "coordinator/homes/home_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/wire/error_detail.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/ps.pb.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CallRounds, FillEachHomesCallsInOrder) {
  const std::vector<SliceLoad> slices = {{0, 40}, {1, 90}, {0, 60}, {0, 1}, {1, 20}, {0, 99}};
  EXPECT_THAT(CallRounds(slices, 100), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
}

TEST(CallRounds, AnOversizedSliceGoesAlone) {
  const std::vector<SliceLoad> slices = {{0, 10}, {0, 500}, {0, 10}};
  EXPECT_THAT(CallRounds(slices, 100), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST(CallRounds, SlicesWithoutBytesTravelWithTheOthers) {
  const std::vector<SliceLoad> slices = {{0, 0}, {0, 500}, {0, 0}};
  EXPECT_THAT(CallRounds(slices, 100), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(CallRounds, NothingIsOneEmptyRound) {
  EXPECT_THAT(CallRounds({}, 100), ElementsAre(ElementsAre()));
}

// Answers the first `malformed` calls with a message that cannot be read. Lives on the test's
// thread.
class DamagingChannel final : public Channel {
 public:
  explicit DamagingChannel(int malformed) : malformed_(malformed) {}
  std::unique_ptr<Call> Start(absl::string_view, Message, absl::Duration, Reply done) override {
    ++calls;
    open_.push_back(std::move(done));
    return nullptr;
  }
  void AnswerAll() {
    for (int answered = 1; !open_.empty(); ++answered) {
      Reply done = std::move(open_.back());
      open_.pop_back();
      if (answered <= malformed_) {
        done(MalformedMessage("its sum differs"));
      } else {
        done(Message{});
      }
    }
  }

  int calls = 0;

 private:
  const int malformed_;
  std::vector<Reply> open_;
};

// A damaged message is a broken card or cable between two tasks, which its line has to name.
TEST(CallEach, AMalformedMessageIsNamedWithItsTaskAndTheCallIsMadeAgain) {
  for (const int malformed : {0, 2, 3}) {
    SCOPED_TRACE(malformed);
    const auto channel = std::make_shared<DamagingChannel>(malformed);
    TaskLink link;
    link.task.set_role("ps");
    link.task.set_index(4);
    link.task.set_incarnation(9);
    link.data = channel;
    absl::Status ended = absl::UnknownError("no answer");
    testing::internal::CaptureStderr();
    CallEach<proto::PsStatsResponse>(
        {link}, "/a.B/C", std::vector<Envelope<proto::PsStatsRequest>>(1), absl::Seconds(1),
        [&](auto answers) { ended = answers.status(); });
    channel->AnswerAll();
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(channel->calls, std::min(malformed + 1, kCallAttemptsMax));
    EXPECT_EQ(ended.ok(), malformed < kCallAttemptsMax) << ended;
    const std::vector<std::string> pieces = absl::StrSplit(said, "event=malformed_message");
    ASSERT_EQ(pieces.size(), static_cast<size_t>(malformed) + 1) << said;
    for (size_t i = 1; i < pieces.size(); ++i) {
      EXPECT_THAT(pieces[i], HasSubstr("ps:4"));
      EXPECT_THAT(pieces[i], HasSubstr("method=/a.B/C"));
    }
  }
}

}  // namespace
}  // namespace cohort
