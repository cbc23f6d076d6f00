// Who gets a connection: the first bytes decide, in whatever pieces they come.

#include "common/wire/route/shared_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/wire/frames/stream_dial.h"

namespace cohort {
namespace {

constexpr char kName[] = "0123456789abcdef0123456789abcdef";
constexpr char kHttp2[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

TEST(StreamGreeting, IsReadAsItWasWritten) {
  for (const StreamKind kind : {StreamKind::kCalls, StreamKind::kParts}) {
    const std::string greeting = StreamGreeting(kind, kName);
    EXPECT_EQ(greeting.size(), StreamGreetingBytes(kName));
    const Greeted greeted = ReadGreeting(greeting, kName);
    EXPECT_EQ(greeted.first, FirstBytes::kGreeting);
    EXPECT_EQ(greeted.kind, kind);
    for (size_t size = 0; size < greeting.size(); ++size) {
      EXPECT_EQ(ReadGreeting(greeting.substr(0, size), kName).first, FirstBytes::kTooFew) << size;
    }
  }
}

TEST(StreamGreeting, OfAnotherProtocolIsKnownByItsFirstByte) {
  EXPECT_EQ(ReadGreeting("P", kName).first, FirstBytes::kOther);
  EXPECT_EQ(ReadGreeting("cohort-frames-2", kName).first, FirstBytes::kOther);
}

TEST(StreamGreeting, ForAnotherServerIsOfAStranger) {
  std::string other = kName;
  other.back() = '0';
  EXPECT_EQ(ReadGreeting(StreamGreeting(StreamKind::kCalls, other), kName).first,
            FirstBytes::kStranger);
}

class SharedPortTest : public testing::Test {
 protected:
  struct Taken {
    std::string who;
    std::string first_bytes;
    UniqueFd socket;
  };

  void Open(std::chrono::milliseconds silence_max = std::chrono::minutes(10)) {
    auto listeners = ListenTcp("127.0.0.1:0");
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    number_ = listeners->port;
    port_ = SharedPort::Start(
        loop_, *std::move(listeners),
        {kName,
         [this](UniqueFd socket, StreamKind kind) {
           Add({kind == StreamKind::kParts ? "parts" : "calls", "", std::move(socket)});
         },
         [this](UniqueFd socket, const std::string& bytes) {
           Add({"others", bytes, std::move(socket)});
         },
         silence_max});
  }
  void TearDown() override {
    if (port_ != nullptr) port_->Close();
  }

  std::string peer() const { return absl::StrCat("ipv4:127.0.0.1:", number_); }

  UniqueFd Connect() const {
    auto socket = BeginConnectTcp(peer());
    EXPECT_TRUE(socket.ok()) << socket.status();
    pollfd ready = {socket->get(), POLLOUT, 0};
    EXPECT_EQ(poll(&ready, 1, -1), 1);
    EXPECT_TRUE(ConnectedTcp(*socket).ok());
    return *std::move(socket);
  }

  static void Say(const UniqueFd& socket, const std::string& bytes) {
    EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // All that comes until there are so many bytes, or the other end closes.
  static std::string Hear(const UniqueFd& socket, size_t bytes) {
    std::string heard;
    while (heard.size() < bytes) {
      pollfd ready = {socket.get(), POLLIN, 0};
      if (poll(&ready, 1, 60'000) != 1) return heard + " and no more";
      char some[64];
      const size_t most = std::min(sizeof(some), bytes - heard.size());
      const ssize_t count = recv(socket.get(), some, most, 0);
      if (count <= 0) return heard + " and the end";
      heard.append(some, static_cast<size_t>(count));
    }
    return heard;
  }

  Taken Wait() {
    MutexLock lock(mutex_);
    while (taken_.empty()) changed_.Wait(mutex_);
    Taken first = std::move(taken_.front());
    taken_.erase(taken_.begin());
    return first;
  }

  std::shared_ptr<IoLoop> loop_ = std::make_shared<IoLoop>(Turns::kShort);
  std::shared_ptr<SharedPort> port_;
  int number_ = 0;

 private:
  void Add(Taken taken) {
    MutexLock lock(mutex_);
    taken_.push_back(std::move(taken));
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<Taken> taken_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(SharedPortTest, AGreetingIsWelcomedAndGivenToFrames) {
  Open();
  const UniqueFd socket = Connect();
  // The loop sees it come in two pieces: the second is sent when the first was taken.
  const std::string greeting = StreamGreeting(StreamKind::kParts, kName);
  Say(socket, greeting.substr(0, 9));
  const UniqueFd other = Connect();
  Say(other, StreamGreeting(StreamKind::kCalls, kName));
  EXPECT_EQ(Wait().who, "calls");
  Say(socket, greeting.substr(9));
  EXPECT_EQ(Wait().who, "parts");
  EXPECT_EQ(Hear(socket, kStreamWelcome.size()), kStreamWelcome);
}

TEST_F(SharedPortTest, AnotherProtocolIsGivenAwayWithTheBytesThatItBeganWith) {
  Open();
  const UniqueFd socket = Connect();
  Say(socket, kHttp2);
  Taken taken = Wait();
  EXPECT_EQ(taken.who, "others");
  // The rest, if any, is still in the socket.
  const std::string all = kHttp2;
  ASSERT_EQ(taken.first_bytes, all.substr(0, taken.first_bytes.size()));
  EXPECT_EQ(taken.first_bytes + Hear(taken.socket, all.size() - taken.first_bytes.size()), all);
}

TEST_F(SharedPortTest, AStrangerIsTurnedAway) {
  Open();
  const UniqueFd socket = Connect();
  std::string other = kName;
  other.back() = '0';
  Say(socket, StreamGreeting(StreamKind::kCalls, other));
  EXPECT_EQ(Hear(socket, 1), " and the end");
}

TEST_F(SharedPortTest, WhoSaysNothingIsGivenToOthersInTheEnd) {
  Open(std::chrono::milliseconds(1));
  const UniqueFd silent = Connect();
  Taken taken = Wait();
  EXPECT_EQ(taken.who, "others");
  EXPECT_EQ(taken.first_bytes, "");
}

TEST_F(SharedPortTest, WhoGoesBeforeSayingAnythingIsForgotten) {
  Open();
  Connect();
  const UniqueFd socket = Connect();
  Say(socket, kHttp2);
  EXPECT_EQ(Wait().who, "others");
}

TEST_F(SharedPortTest, CloseFreesThePortAndEndsWhoHasNotSpoken) {
  Open();
  const UniqueFd socket = Connect();
  Say(socket, "co");
  port_->Close();
  EXPECT_EQ(Hear(socket, 1), " and the end");
  const auto again = ListenTcp(absl::StrCat("127.0.0.1:", number_));
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(SharedPortTest, ADialEndsWithAConnectionOfItsKind) {
  Open();
  Mutex mutex;
  CondVar changed;
  absl::StatusOr<UniqueFd> result = absl::UnknownError("");
  bool ended = false;
  const auto dial = StreamDial::Start(loop_, {peer(), kName, StreamKind::kParts},
                                      [&](absl::StatusOr<UniqueFd> socket) {
                                        MutexLock lock(mutex);
                                        result = std::move(socket);
                                        ended = true;
                                        changed.NotifyAll();
                                      });
  ASSERT_TRUE(dial.ok()) << dial.status();
  EXPECT_EQ(Wait().who, "parts");
  MutexLock lock(mutex);
  while (!ended) changed.Wait(mutex);
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST(ListenTcp, APortThatIsTakenIsNamed) {
  const auto first = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", first->port);
  const auto second = ListenTcp(address);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), testing::HasSubstr(address));
}

TEST(ListenTcp, EveryInterfaceIsReachedByBothFamilies) {
  const auto listeners = ListenTcp("0.0.0.0:0");
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  for (const std::string peer : {"ipv4:127.0.0.1:", "ipv6:%5B::1%5D:"}) {
    const auto socket = BeginConnectTcp(absl::StrCat(peer, listeners->port));
    if (!socket.ok() && peer != "ipv4:127.0.0.1:") continue;  // a host without IPv6
    ASSERT_TRUE(socket.ok()) << socket.status();
    pollfd ready = {socket->get(), POLLOUT, 0};
    ASSERT_EQ(poll(&ready, 1, -1), 1);
    EXPECT_TRUE(ConnectedTcp(*socket).ok()) << peer;
  }
}

TEST(ConnectTcp, APeerThatIsNotOfTcpIsRefused) {
  for (const char* const peer : {"unix:/tmp/x", "", "ipv4:name:1", "ipv6:%5Bfe80::1%25e%5D:1"}) {
    EXPECT_EQ(BeginConnectTcp(peer).status().code(), absl::StatusCode::kInvalidArgument) << peer;
  }
}

}  // namespace
}  // namespace cohort
