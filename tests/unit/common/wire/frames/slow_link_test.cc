// Calls whose bytes move slowly, and calls whose bytes do not move. The other end of the connection
// is the test, and time is moved by hand.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/wire/frames/frame_prefix.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/moved_bytes.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(10);
constexpr absl::Duration kMs = absl::Milliseconds(1);
constexpr size_t kMiB = size_t{1} << 20;

class SlowLinkTest : public testing::Test {
 protected:
  SlowLinkTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Connect(UniqueFd(ends[0]), UniqueFd(ends[1]));
  }
  ~SlowLinkTest() override {
    // Completions refer to this object.
    peer_ = UniqueFd();
    Until([&] { return !session_->open(); });
  }

  void Connect(UniqueFd own, UniqueFd peer) {
    peer_ = std::move(peer);
    EXPECT_EQ(ioctl(own.get(), FIONBIO, &(on_ = 1)), 0);
    own_ = UniqueFd(dup(own.get()));
    LocalSession::Options options;
    options.address = "the test";
    options.message_bytes_max = kMessageBytesMax;
    options.blocks = false;
    options.free_bytes_max = kFrameBytesMax;
    options.now = [this] { return now_.load(); };
    session_ = LocalSession::Over(loop_, std::move(own), std::move(options));
  }

  // Lets the loop go on until `holds`; how long that takes says nothing.
  static void Until(const std::function<bool()>& holds) {
    while (!holds()) std::this_thread::yield();
  }

  // Starts a call as a parameter server's client does. Calls have the ids 1, 2 and so on.
  Outcome& Start(size_t answer_bytes, Payload payload = {}) {
    const size_t bytes = PayloadBytes(payload) + answer_bytes;
    return Start(Message{"", std::move(payload), answer_bytes, kSilence},
                 LongestTime(kSilence, bytes));
  }
  Outcome& Start(Message request, absl::Duration timeout) {
    outcomes_.push_back(std::make_unique<Outcome>());
    session_->Start(kPull, std::move(request), timeout, outcomes_.back()->Completion());
    return *outcomes_.back();
  }

  // Moves the time, and lets the session look at it as its timer would.
  void Pass(absl::Duration time) {
    now_ = now_.load() + absl::ToChronoNanoseconds(time);
    session_->ExpireCalls();
  }
  // Moves the time as the session's timer sees it pass.
  void PassInSteps(absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= 200 * kMs) Pass(std::min(time, 200 * kMs));
  }

  void Write(const std::string& bytes) {
    ASSERT_EQ(write(peer_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    // The session has read all of it when its socket is empty and the loop has run a task.
    Until([&] {
      int unread = 0;
      return ioctl(own_.get(), FIONREAD, &unread) == 0 && unread == 0;
    });
    std::atomic<bool> ran{false};
    loop_->Post([&] { ran = true; });
    Until([&] { return ran.load(); });
  }
  // Sends the next bytes of an answer that has `whole` bytes.
  void WritePart(uint64_t id, size_t bytes, size_t whole, bool first) {
    proto::LocalFrame frame;
    if (first) {
      frame.mutable_reply()->set_id(id);
      frame.set_whole_bytes(whole);
    }
    frame.set_following(bytes);
    Write(WithPrefix(frame, FrameSums::kNone) + std::string(bytes, 'x'));
  }
  void ReadAll(size_t bytes) {
    std::string room(bytes, '\0');
    ASSERT_EQ(recv(peer_.get(), room.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }

  int on_ = 0;
  const std::shared_ptr<IoLoop> loop_ = std::make_shared<IoLoop>(Turns::kShort);
  std::atomic<std::chrono::steady_clock::time_point> now_{std::chrono::steady_clock::now()};
  UniqueFd own_;  // another descriptor of the session's socket
  UniqueFd peer_;
  std::shared_ptr<LocalSession> session_;
  std::vector<std::unique_ptr<Outcome>> outcomes_;
};

TEST_F(SlowLinkTest, AnAnswerMayTakeAsLongAsItsBytesMove) {
  Outcome& outcome = Start(8 * kMiB);
  for (int part = 0; part < 8; ++part) {
    PassInSteps(9 * absl::Seconds(1));
    EXPECT_FALSE(outcome.done()) << part;
    WritePart(1, kMiB, 8 * kMiB, part == 0);
  }
  ASSERT_TRUE(outcome.WaitFor(kLong));
  const auto answer = outcome.Take();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(PayloadBytes(answer->payload), 8 * kMiB);
}

TEST_F(SlowLinkTest, ASilentConnectionIsFoundAtTheSilence) {
  Outcome& outcome = Start(size_t{191} << 20);
  Pass(kSilence - kMs);
  EXPECT_FALSE(outcome.done());
  Pass(kMs);
  ASSERT_TRUE(outcome.done());
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome.Take().status()));
}

TEST_F(SlowLinkTest, AConnectionThatFallsSilentIsFoundAtTheSilenceAfterItsLastBytes) {
  Outcome& outcome = Start(8 * kMiB);
  for (int part = 0; part < 3; ++part) {
    PassInSteps(9 * absl::Seconds(1));
    WritePart(1, kMiB, 8 * kMiB, part == 0);
  }
  PassInSteps(kSilence - kMs);
  EXPECT_FALSE(outcome.done());
  Pass(kMs);
  ASSERT_TRUE(outcome.done());
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome.Take().status()));
}

TEST_F(SlowLinkTest, ATrickleIsSilence) {
  Outcome& outcome = Start(8 * kMiB);
  for (int second = 0; second < 10; ++second) {
    EXPECT_FALSE(outcome.done()) << second;
    WritePart(1, 6000, 8 * kMiB, second == 0);
    Pass(absl::Seconds(1));
  }
  ASSERT_TRUE(outcome.done());
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome.Take().status()));
}

// What counts as progress as often as it must, and never comes to the end.
TEST_F(SlowLinkTest, ATrickleThatIsNoSilenceEndsAtTheLongestTime) {
  Outcome& outcome = Start(2 * kMiB);
  absl::Duration passed;
  for (bool first = true; !outcome.done(); first = false) {
    WritePart(1, kProgressBytes, 2 * kMiB, first);
    PassInSteps(9 * absl::Seconds(1));
    passed += 9 * absl::Seconds(1);
  }
  // A call may take 10 s and 16 s for each MiB.
  EXPECT_EQ(passed, absl::Seconds(45));
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome.Take().status()));
}

TEST_F(SlowLinkTest, ARequestMayTakeAsLongAsItsBytesMove) {
  Outcome& outcome = Start(0, {Bytes(4 * kMiB, 1)});
  for (int part = 0; part < 8; ++part) {
    PassInSteps(9 * absl::Seconds(1));
    EXPECT_FALSE(outcome.done()) << part;
    ReadAll(kMiB / 2);
    Until([&] { return session_->SinceProgress() == absl::ZeroDuration(); });
  }
  WritePart(1, 1, 1, true);
  EXPECT_TRUE(outcome.WaitFor(kLong));
  EXPECT_TRUE(outcome.Take().ok());
}

TEST_F(SlowLinkTest, ARequestThatNobodyReadsIsFoundAtTheSilence) {
  Outcome& outcome = Start(0, {Bytes(4 * kMiB, 1)});
  // The system has taken some of it by now.
  Until([&] { return session_->SinceProgress() == absl::ZeroDuration(); });
  PassInSteps(kSilence - kMs);
  EXPECT_FALSE(outcome.done());
  Pass(kMs);
  EXPECT_TRUE(outcome.done());
}

// Messages travel one after another, so a call waits for the bytes of those before its own.
TEST_F(SlowLinkTest, ACallBehindAnotherGoesOnWhileTheOthersBytesMove) {
  Outcome& first = Start(4 * kMiB);
  Outcome& second = Start(4 * kMiB);
  for (int part = 0; part < 4; ++part) {
    PassInSteps(9 * absl::Seconds(1));
    WritePart(1, kMiB, 4 * kMiB, part == 0);
  }
  EXPECT_TRUE(first.WaitFor(kLong));
  EXPECT_FALSE(second.done());
  PassInSteps(kSilence);
  EXPECT_TRUE(second.done());
}

TEST_F(SlowLinkTest, ACallWithoutALimitOfSilenceEndsAtItsTimeOut) {
  Outcome& outcome = Start(Message{}, absl::Seconds(3));
  Pass(absl::Seconds(2));
  WritePart(7, kMiB, 8 * kMiB, true);
  EXPECT_FALSE(outcome.done());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(outcome.done());
}

// The same over TCP, where the system may hold a whole request that travels slowly.
class SlowTcpTest : public SlowLinkTest {
 protected:
  static constexpr int kBufferBytes = 200 << 10;

  SlowTcpTest() {
    UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 16 << 10;
    // An accepted connection has the listener's size.
    setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener.get(), generic, size), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), generic, &size), 0);
    UniqueFd own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int large = kBufferBytes;
    setsockopt(own.get(), SOL_SOCKET, SO_SNDBUF, &large, sizeof(large));
    EXPECT_EQ(connect(own.get(), generic, size), 0);
    UniqueFd peer(accept(listener.get(), nullptr, nullptr));
    Connect(std::move(own), std::move(peer));
  }
  size_t Queued() const {
    int queued = 0;
    EXPECT_EQ(ioctl(own_.get(), SIOCOUTQ, &queued), 0);
    return static_cast<size_t>(queued);
  }
};

TEST_F(SlowTcpTest, WhatTheSystemHoldsMovesWhenTheOtherHostConfirmsIt) {
  const size_t bytes = kBufferBytes;
  Outcome& outcome = Start(Message{"", {Bytes(bytes, 1)}, 0, kSilence}, absl::Hours(1));
  // The system takes all of it at once, and little of it moves.
  Until([&] { return session_->SinceProgress() == absl::ZeroDuration() && Queued() > bytes / 2; });
  PassInSteps(absl::Seconds(8));
  for (size_t left = Queued(); left > kProgressBytes; left = Queued()) {
    const size_t wanted = left - kProgressBytes - 1;
    while (Queued() > wanted) ReadAll(1 << 10);
    PassInSteps(absl::Seconds(8));
    EXPECT_FALSE(outcome.done());
  }
  PassInSteps(kSilence);
  EXPECT_TRUE(outcome.done()) << "nothing moved any more";
}

}  // namespace
}  // namespace cohort
