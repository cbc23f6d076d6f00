// Connections that come while the process has no descriptor left.

#include "common/wire/frames/acceptor.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/wire/frames/tcp_socket.h"

namespace cohort {
namespace {

class AcceptorTest : public testing::Test {
 protected:
  void Open(std::chrono::milliseconds rest) {
    auto listeners = ListenTcp("127.0.0.1:0");
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    peer_ = absl::StrCat("ipv4:127.0.0.1:", listeners->port);
    acceptor_ = Acceptor::Start(loop_, std::move(listeners->sockets.front()),
                                {[this](const UniqueFd& socket) {
                                   ++attempts_;
                                   if (shortages_ == 0) return AcceptTcp(socket);
                                   --shortages_;
                                   errno = EMFILE;
                                   return UniqueFd();
                                 },
                                 [this](UniqueFd connection) { taken_.set_value(); }, rest});
  }
  void TearDown() override { acceptor_->Close(); }

  UniqueFd Connect() const {
    auto socket = BeginConnectTcp(peer_);
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }

  // The loop has looked at all that had come.
  void Turn() {
    std::promise<void> turned;
    loop_->Post([&] { turned.set_value(); });
    turned.get_future().wait();
  }

  const std::shared_ptr<IoLoop> loop_ = std::make_shared<IoLoop>(Turns::kShort);
  std::shared_ptr<Acceptor> acceptor_;
  std::string peer_;
  std::atomic<int> attempts_{0};
  std::atomic<int> shortages_{0};
  std::promise<void> taken_;
};

TEST_F(AcceptorTest, AreTakenWhenItHasOneAgain) {
  shortages_ = 3;
  Open(std::chrono::milliseconds(1));
  const UniqueFd socket = Connect();
  taken_.get_future().wait();
  EXPECT_EQ(shortages_, 0);
}

TEST_F(AcceptorTest, AreNotAskedForAgainAndAgain) {
  shortages_ = 1'000'000;
  Open(std::chrono::minutes(10));
  const UniqueFd socket = Connect();
  while (attempts_ == 0) Turn();
  for (int i = 0; i < 100; ++i) Turn();
  EXPECT_EQ(attempts_, 1);
}

TEST_F(AcceptorTest, ClosesWhileItRests) {
  shortages_ = 1'000'000;
  Open(std::chrono::milliseconds(1));
  const UniqueFd socket = Connect();
  while (attempts_ < 2) Turn();
  acceptor_->Close();
  const int attempts = attempts_;
  for (int i = 0; i < 100; ++i) Turn();
  EXPECT_EQ(attempts_, attempts);
}

}  // namespace
}  // namespace cohort
