// Which connection a worker uses to a parameter server that Attach names.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"
#include "worker/ps_client/ps_client.h"

namespace cohort {
namespace {

// Counts connections; their calls are never answered. Lives on the test's thread.
class CountedTransport final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string&,
                                                 std::vector<Service>) override {
    return absl::UnimplementedError("no server");
  }
  std::shared_ptr<Channel> Connect(const std::string& address, Lane) override {
    class SilentChannel final : public Channel {
      std::unique_ptr<Call> Start(absl::string_view, Message, absl::Duration, Reply) override {
        return nullptr;
      }
    };
    connected.push_back(address);
    return std::make_shared<SilentChannel>();
  }

  std::vector<std::string> connected;
};

class PsRouteTest : public testing::Test {
 protected:
  void Attach(uint64_t incarnation, const std::string& address) {
    proto::AttachRequest attach;
    proto::Peer& ps = *attach.add_ps();
    ps.mutable_task()->set_role("ps");
    ps.mutable_task()->set_incarnation(incarnation);
    ps.set_address(address);
    client_->SetPeers(attach.ps(), kDefaultLease);
  }

  SimWorld sim_{1};
  MemoryFileSystem files_;
  CountedTransport transport_;
  const std::shared_ptr<PsClient> client_ =
      std::make_shared<PsClient>(World{sim_, sim_, files_, transport_}, RetryPolicy(), nullptr);
};

TEST_F(PsRouteTest, AnotherIncarnationIsAnotherConnection) {
  Attach(7, "name:1");
  Attach(7, "name:1");
  EXPECT_EQ(transport_.connected.size(), 1u) << "the same process";
  Attach(8, "name:1");  // the name may lead elsewhere now
  EXPECT_EQ(transport_.connected.size(), 2u);
  Attach(8, "other:1");
  EXPECT_EQ(transport_.connected.size(), 3u);
}

}  // namespace
}  // namespace cohort
