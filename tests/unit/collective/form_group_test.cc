#include "worker/collective/form_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/event.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/joined_transport.h"
#include "worker/collective/shm_communicator.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Ranks of one process, of which one may think of another socket.
class FormedRanks {
 public:
  FormedRanks(int size, const std::vector<std::string>& sockets)
      : groups_(static_cast<size_t>(size)) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < size; ++rank) {
      tables_.push_back(std::make_shared<GroupTable>());
      servers_.push_back(*transport_.Listen("local:0", {tables_.back()->MakeService()}));
      addresses.push_back(servers_.back()->address());
    }
    std::vector<Event> formed(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      const auto index = static_cast<size_t>(rank);
      FormGroupOptions options;
      options.group.name = {"workers", 1};
      options.group.rank = rank;
      options.group.size = size;
      options.addresses = addresses;
      options.shm_socket = sockets[index];
      options.shm_timeout = absl::Milliseconds(500);
      FormGroup({clock_, pool_, transport_, tables_[index]}, options,
                [this, &formed, index](FormedGroup group) {
                  groups_[index] = std::move(group);
                  formed[index].Notify();
                });
    }
    for (const Event& one : formed) EXPECT_TRUE(waiter_.Wait(one, absl::Minutes(1)));
  }
  ~FormedRanks() {
    groups_.clear();
    servers_.clear();
  }

  const std::string& HowOf(size_t rank) const { return groups_[rank].how; }

  void ExpectThatTheySum() {
    std::vector<int64_t> values(groups_.size());
    std::vector<Event> done(groups_.size());
    for (size_t rank = 0; rank < groups_.size(); ++rank) {
      values[rank] = static_cast<int64_t>(rank + 1);
      CollectiveCall call;
      call.op = CollectiveOp::kAllReduce;
      call.dtype = DType::kInt64;
      call.count = 1;
      call.output = absl::MakeSpan(reinterpret_cast<std::byte*>(&values[rank]), sizeof(int64_t));
      call.input = call.output;
      groups_[rank].communicator->Start(call, [&done, rank](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        done[rank].Notify();
      });
    }
    for (const Event& one : done) ASSERT_TRUE(waiter_.Wait(one, absl::Minutes(1)));
    const auto size = static_cast<int64_t>(values.size());
    for (const int64_t value : values) EXPECT_EQ(value, size * (size + 1) / 2);
  }

 private:
  BlockingWaiter waiter_;
  RealClock clock_;
  ThreadPool pool_{{"ranks", 2}};
  JoinedTransport transport_{std::make_unique<InProcessTransport>(clock_, pool_)};
  std::vector<std::shared_ptr<GroupTable>> tables_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<FormedGroup> groups_;
};

TEST(FormGroup, RanksOfOneHostShareMemory) {
  FormedRanks ranks(3, std::vector<std::string>(3, NewShmSocket()));
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.HowOf(rank), "shared memory");
  ranks.ExpectThatTheySum();
}

TEST(FormGroup, RanksThatDoNotAllMeetSendFrames) {
  const std::string socket = NewShmSocket();
  FormedRanks ranks(3, {socket, socket, NewShmSocket()});
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_THAT(ranks.HowOf(rank), StartsWith("frames: "));
  EXPECT_THAT(ranks.HowOf(0), HasSubstr("waiting for rank 2"));
  ranks.ExpectThatTheySum();
}

TEST(FormGroup, FramesWhereMemoryIsNotAskedFor) {
  FormedRanks ranks(2, {"", ""});
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks.HowOf(rank), "frames: sharing memory was not asked for");
  }
  ranks.ExpectThatTheySum();
}

}  // namespace
}  // namespace cohort
