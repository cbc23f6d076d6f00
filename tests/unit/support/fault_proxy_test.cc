// Each fault of the proxy as a client and a server with plain sockets see it.

#include "tests/support/fault_proxy.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace cohort {
namespace {

// How long anything may take that must happen.
constexpr absl::Duration kPatience = absl::Seconds(30);

// A blocking socket whose reads give up at last. Thread-compatible.
class Socket {
 public:
  Socket() : Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit Socket(int fd) : fd_(fd) {
    const timeval patience = {30, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }

  // 0 or the error.
  int Connect(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0 ? 0 : errno;
  }
  bool Send(const std::string& bytes) {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // `size` bytes, or fewer at the end of the stream; "error N" where it broke.
  std::string Receive(size_t size) {
    std::string bytes(size, '\0');
    const ssize_t got = recv(fd_.get(), bytes.data(), size, MSG_WAITALL);
    if (got < 0) return absl::StrCat("error ", errno);
    bytes.resize(static_cast<size_t>(got));
    return bytes;
  }
  bool IsSilent() const {
    char byte = 0;
    return recv(fd_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
  }
  void Close() { UniqueFd closed = std::move(fd_); }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

class Listener {
 public:
  Listener() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_.fd(), reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(listen(socket_.fd(), 16), 0);
  }
  std::string address() const {
    sockaddr_in bound{};
    socklen_t size = sizeof(bound);
    getsockname(socket_.fd(), reinterpret_cast<sockaddr*>(&bound), &size);
    return absl::StrCat("127.0.0.1:", ntohs(bound.sin_port));
  }
  Socket Accept() { return Socket(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  Socket socket_;
};

std::string Error(int number) { return absl::StrCat("error ", number); }

class FaultProxyTest : public testing::Test {
 protected:
  void SetUp() override {
    proxy.SetTarget(listener.address());
    ASSERT_EQ(client.Connect(proxy.address()), 0);
    server = listener.Accept();
  }

  bool WaitUntil(const std::function<bool(const FaultProxy::Counts&)>& holds) {
    return proxy.WaitUntil(holds, kPatience);
  }

  FaultProxy proxy;
  Listener listener;
  Socket client;
  Socket server;
};

TEST_F(FaultProxyTest, PassesBytesBothWaysAndCountsThem) {
  EXPECT_TRUE(client.Send("question"));
  EXPECT_EQ(server.Receive(8), "question");
  EXPECT_TRUE(server.Send("answer"));
  EXPECT_EQ(client.Receive(6), "answer");
  EXPECT_TRUE(WaitUntil([](const auto& counts) { return counts.to_client.passed == 6; }));
  EXPECT_EQ(proxy.counts().to_server.passed, 8u);
  EXPECT_EQ(proxy.counts().accepted, 1);
  EXPECT_EQ(proxy.counts().open, 1);
  client.Close();
  EXPECT_EQ(server.Receive(1), "") << "the end of the stream is passed on";
  server.Close();
  EXPECT_TRUE(WaitUntil([](const auto& counts) { return counts.open == 0; }));
  EXPECT_EQ(proxy.counts().to_server.passed, 8u) << "counts outlive the connection";
}

TEST_F(FaultProxyTest, AMuchFasterSenderWaitsAndNothingIsLost) {
  std::string sent(32 << 20, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 7);
  std::thread sender([&] { EXPECT_TRUE(client.Send(sent)); });
  EXPECT_TRUE(server.Receive(sent.size()) == sent);
  sender.join();
}

TEST_F(FaultProxyTest, ADelayIsOfOneDirection) {
  const auto delay = std::chrono::milliseconds(50);
  proxy.SetDelay(FaultProxy::kToServer, absl::FromChrono(delay));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(client.Send("late"));
  EXPECT_TRUE(server.Send("now"));
  EXPECT_EQ(client.Receive(3), "now");
  EXPECT_EQ(server.Receive(4), "late");
  EXPECT_GE(std::chrono::steady_clock::now() - start, delay);
}

TEST_F(FaultProxyTest, WhatIsHeldArrivesLaterInOrder) {
  proxy.SetFlow(FaultProxy::kToServer, ProxyFlow::kHold);
  EXPECT_TRUE(client.Send("one "));
  EXPECT_TRUE(WaitUntil([](const auto& counts) { return counts.to_server.held == 4; }));
  EXPECT_TRUE(client.Send("two"));
  client.Close();
  EXPECT_TRUE(WaitUntil([](const auto& counts) { return counts.to_server.held == 7; }));
  EXPECT_TRUE(server.IsSilent());
  proxy.SetFlow(ProxyFlow::kPass);
  EXPECT_EQ(server.Receive(100), "one two");
}

TEST_F(FaultProxyTest, WhatIsDroppedIsLostAndTheConnectionStaysSilent) {
  proxy.SetFlow(FaultProxy::kToServer, ProxyFlow::kDrop);
  EXPECT_TRUE(client.Send("lost"));
  EXPECT_TRUE(WaitUntil([](const auto& counts) { return counts.to_server.dropped == 4; }));
  EXPECT_TRUE(server.Send("heard"));
  EXPECT_EQ(client.Receive(5), "heard") << "the other direction is not touched";
  proxy.SetFlow(ProxyFlow::kPass);
  EXPECT_TRUE(client.Send("more"));
  EXPECT_TRUE(WaitUntil([](const auto& counts) { return counts.to_server.dropped == 8; }));
  EXPECT_TRUE(server.IsSilent());
  EXPECT_EQ(proxy.counts().open, 1) << "nobody is told";

  Socket second;
  ASSERT_EQ(second.Connect(proxy.address()), 0);
  Socket second_server = listener.Accept();
  EXPECT_TRUE(second.Send("fresh"));
  EXPECT_EQ(second_server.Receive(5), "fresh");
}

TEST_F(FaultProxyTest, AHalfClosedDirectionEndsAndTheOtherGoesOn) {
  EXPECT_TRUE(client.Send("before"));
  EXPECT_EQ(server.Receive(6), "before");
  proxy.HalfClose(FaultProxy::kToServer);
  EXPECT_EQ(server.Receive(1), "");
  EXPECT_TRUE(client.Send("after"));
  EXPECT_TRUE(WaitUntil([](const auto& counts) { return counts.to_server.dropped == 5; }));
  EXPECT_TRUE(server.Send("answer"));
  EXPECT_EQ(client.Receive(6), "answer");
  EXPECT_EQ(proxy.counts().open, 1);
}

TEST_F(FaultProxyTest, AResetIsSeenAtBothEnds) {
  proxy.ResetAll();
  EXPECT_EQ(client.Receive(1), Error(ECONNRESET));
  EXPECT_EQ(server.Receive(1), Error(ECONNRESET));
  EXPECT_EQ(proxy.counts().open, 0);
  Socket second;
  ASSERT_EQ(second.Connect(proxy.address()), 0) << "new connections are taken";
  EXPECT_TRUE(second.Send("x"));
  EXPECT_EQ(listener.Accept().Receive(1), "x");
}

TEST_F(FaultProxyTest, AResetOfOneEndReachesTheOther) {
  const linger now = {1, 0};
  setsockopt(server.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  server.Close();
  EXPECT_EQ(client.Receive(1), Error(ECONNRESET));
}

TEST_F(FaultProxyTest, RefusesAndAcceptsAtTheSameAddress) {
  proxy.RefuseConnections();
  EXPECT_EQ(Socket().Connect(proxy.address()), ECONNREFUSED);
  EXPECT_TRUE(client.Send("x"));
  EXPECT_EQ(server.Receive(1), "x") << "what is open stays open";
  proxy.AcceptConnections();
  Socket second;
  ASSERT_EQ(second.Connect(proxy.address()), 0);
  EXPECT_TRUE(second.Send("y"));
  EXPECT_EQ(listener.Accept().Receive(1), "y");
}

TEST_F(FaultProxyTest, NewConnectionsGoToTheNewTarget) {
  Listener moved;
  proxy.SetTarget(moved.address());
  Socket second;
  ASSERT_EQ(second.Connect(proxy.address()), 0);
  EXPECT_TRUE(second.Send("new"));
  EXPECT_EQ(moved.Accept().Receive(3), "new");
  EXPECT_TRUE(client.Send("old"));
  EXPECT_EQ(server.Receive(3), "old");
}

TEST(FaultProxy, ResetsWhomItCannotConnect) {
  FaultProxy proxy;
  Socket early;
  ASSERT_EQ(early.Connect(proxy.address()), 0);
  EXPECT_EQ(early.Receive(1), Error(ECONNRESET)) << "no target was told";
  {
    FaultProxy other;
    other.RefuseConnections();
    proxy.SetTarget(other.address());
    Socket refused;
    ASSERT_EQ(refused.Connect(proxy.address()), 0);
    EXPECT_EQ(refused.Receive(1), Error(ECONNRESET));
  }
}

}  // namespace
}  // namespace cohort
