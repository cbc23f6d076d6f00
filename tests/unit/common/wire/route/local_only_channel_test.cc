// What a named local transport makes of the names that it is told.

#include "common/wire/route/local_only_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/wire/typed_call.h"
#include "proto/wire.pb.h"
#include "tests/support/network/local_transport.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

using Told = std::vector<absl::StatusOr<std::string>>;

// Answers each question for the name with the next of `told`. Thread-compatible.
class NameTeller final : public Channel {
 public:
  NameTeller(LocalLoops loops, Told told) : loops_(std::move(loops)), told_(std::move(told)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message, absl::Duration,
                              Reply done) override {
    EXPECT_EQ(method, "/cohort.proto.WireService/LocalName");
    loops_.calls->Post([done = std::move(done), name = told_.at(asked_++)]() mutable {
      if (!name.ok()) return done(name.status());
      Envelope<proto::LocalNameResponse> response;
      response.header.set_name(*name);
      done(Pack(std::move(response)));
    });
    return std::make_unique<NoCall>();
  }

  size_t asked() const { return asked_; }

 private:
  class NoCall final : public Call {
    void Cancel() override {}
  };
  const LocalLoops loops_;
  const Told told_;
  size_t asked_ = 0;
};

class LocalOnlyChannelTest : public testing::Test {
 protected:
  LocalOnlyChannelTest() {
    Service service;
    service.descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        "cohort.proto.PsService");
    service.handlers["Pull"] = Echo;
    auto server = transport_.Listen("cohort-shm:0", {service});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // How a call ends while these names are told, and how often one was asked for.
  std::pair<absl::Status, size_t> Ask(Told told) {
    const LocalLoops loops;
    const auto teller = std::make_shared<NameTeller>(loops, std::move(told));
    const auto channel = std::make_shared<LocalOnlyChannel>(
        loops, LocalOnlyChannel::Options{TransportKind::kShm, "there:1", kMessageBytesMax}, teller);
    Outcome outcome;
    const auto call = channel->Start(kPull, Message{}, kLong, outcome.Completion());
    EXPECT_TRUE(outcome.WaitFor(kLong));
    return {outcome.Take().status(), teller->asked()};
  }

  LocalTransport transport_;
  std::unique_ptr<Server> server_;
};

TEST_F(LocalOnlyChannelTest, ANameThatAnswersIsAskedForOnce) {
  EXPECT_EQ(Ask({server_->address()}), std::make_pair(absl::OkStatus(), size_t{1}));
}

TEST_F(LocalOnlyChannelTest, AServerThatStartedAnewBehindItsOldNameIsReached) {
  EXPECT_EQ(Ask({"cohort-shm:gone", server_->address()}),
            std::make_pair(absl::OkStatus(), size_t{2}));
}

TEST_F(LocalOnlyChannelTest, AServerThatEndedBehindItsNameIsUnavailableAndNotRefused) {
  const auto [status, asked] = Ask({"cohort-shm:gone", absl::UnavailableError("nobody there")});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(asked, 2u);
}

TEST_F(LocalOnlyChannelTest, AServerThatTellsANameThatNobodyHereHasIsRefused) {
  const auto [status, asked] = Ask({"cohort-shm:gone", "cohort-shm:gone"});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("there:1"));
  EXPECT_EQ(asked, 2u);
}

}  // namespace
}  // namespace cohort
