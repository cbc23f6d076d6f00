#include "worker/gang/form_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/event.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/frame_limits.h"
#include "common/wire/grpc/grpc_transport.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/route/joined_transport.h"
#include "common/wire/typed_call.h"
#include "tests/unit/common/wire/tcp_frames_transport.h"
#include "worker/collective/shm/shm_communicator.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Ranks of one process, of which one may think of another socket.
class FormedRanks {
 public:
  explicit FormedRanks(int size, const std::vector<std::string>& sockets,
                       std::unique_ptr<Transport> transport = nullptr)
      : address_(transport == nullptr ? "local:0" : "127.0.0.1:0"),
        transport_(transport == nullptr ? std::make_unique<InProcessTransport>(clock_, pool_)
                                        : std::move(transport)),
        groups_(static_cast<size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      routers_.push_back(std::make_shared<FrameRouter>());
      servers_.push_back(*transport_.Listen(address_, {routers_.back()->MakeService()}));
      addresses_.push_back(servers_.back()->address());
    }
    std::vector<Event> formed(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      const auto index = static_cast<size_t>(rank);
      FormGroupOptions options;
      options.group.name = {"workers", 1};
      options.group.rank = rank;
      options.group.size = size;
      options.addresses = addresses_;
      options.shm_socket = sockets[index];
      options.shm_timeout = absl::Milliseconds(500);
      FormGroup({clock_, pool_, transport_, routers_[index]}, options,
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

  Communicator& Of(size_t rank) { return *groups_[rank].communicator; }
  BlockingWaiter& waiter() { return waiter_; }
  // As the rank's process answers.
  proto::GetFlightRecordResponse FlightsOf(size_t rank, uint32_t calls_max) {
    Envelope<proto::GetFlightRecordRequest> request;
    request.header.set_calls_max(calls_max);
    proto::GetFlightRecordResponse answer;
    Event answered;
    StartCall<proto::GetFlightRecordResponse>(
        *transport_.Connect(addresses_[rank], Lane::kControl),
        "/cohort.proto.CollectiveService/GetFlightRecord", request, absl::Minutes(1),
        [&](absl::StatusOr<Envelope<proto::GetFlightRecordResponse>> response) {
          EXPECT_TRUE(response.ok()) << response.status();
          if (response.ok()) answer = response->header;
          answered.Notify();
        });
    EXPECT_TRUE(waiter_.Wait(answered, absl::Minutes(1)));
    return answer;
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
  const std::string address_;
  JoinedTransport transport_;
  std::vector<std::string> addresses_;
  std::vector<std::shared_ptr<FrameRouter>> routers_;
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

// Rank 1 of three has not started the call in which the others wait.
void ExpectThatRecordsTellWhoWaits(FormedRanks& ranks) {
  ranks.ExpectThatTheySum();
  if (testing::Test::HasFailure()) return;  // a group that has ended starts no more calls
  std::vector<Event> done(3);
  const auto start = [&ranks, &done](size_t rank) {
    CollectiveCall call;
    call.name = "late";
    ranks.Of(rank).Start(call, [&done, rank](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      done[rank].Notify();
    });
  };
  start(0);
  start(2);
  for (const size_t rank : {0, 2}) {
    proto::GetFlightRecordResponse flights;
    // A call is recorded on another thread than that of its start.
    do {
      flights = ranks.FlightsOf(rank, 1);
      ASSERT_EQ(flights.groups_size(), 1);
    } while (flights.groups(0).calls_started() < 2);
    const proto::GroupFlight& group = flights.groups(0);
    EXPECT_EQ(group.group(), "workers");
    EXPECT_EQ(group.generation(), 1u);
    EXPECT_EQ(group.rank(), rank);
    EXPECT_EQ(group.size(), 3u);
    EXPECT_EQ(group.last_done(), "call 0, all-reduce");
    ASSERT_EQ(group.operations_size(), 1) << "no more were asked for";
    EXPECT_EQ(group.operations(0).sequence(), 1u);
    EXPECT_EQ(group.operations(0).call(), "barrier 'late'");
    EXPECT_EQ(group.operations(0).state(), proto::FlightOperation::UNDER_WAY);
  }
  const proto::GroupFlight missing = ranks.FlightsOf(1, 0).groups(0);
  EXPECT_EQ(missing.calls_started(), 1u);
  ASSERT_EQ(missing.operations_size(), 1);
  EXPECT_EQ(missing.operations(0).call(), "all-reduce int64");
  EXPECT_EQ(missing.operations(0).state(), proto::FlightOperation::DONE);
  start(1);
  for (const Event& one : done) ASSERT_TRUE(ranks.waiter().Wait(one, absl::Minutes(1)));
}

TEST(FormGroup, RecordsOverTcpTellWhoWaits) {
  FormedRanks frames(3, {"", "", ""}, std::make_unique<TcpFramesTransport>(kMessageBytesMax));
  ExpectThatRecordsTellWhoWaits(frames);
}

#ifndef __SANITIZE_THREAD__  // does not see the locks of Debian's gRPC
TEST(FormGroup, RecordsOverGrpcTellWhoWaits) {
  FormedRanks frames(3, {"", "", ""}, std::make_unique<GrpcTransport>());
  ExpectThatRecordsTellWhoWaits(frames);
  FormedRanks shared(3, std::vector<std::string>(3, NewShmSocket()),
                     std::make_unique<GrpcTransport>());
  ExpectThatRecordsTellWhoWaits(shared);
}
#endif

TEST(FormGroup, TheLastFewGroupsAreKept) {
  const auto router = std::make_shared<FrameRouter>();
  RealClock clock;
  ThreadPool pool({"pool", 1});
  InProcessTransport transport(clock, pool);
  const auto server = transport.Listen("host", {router->MakeService()});
  ASSERT_TRUE(server.ok()) << server.status();
  for (uint64_t generation = 1; generation <= 6; ++generation) {
    FlightRecorder::Owner owner;
    owner.group = {"workers", generation};
    router->Keep(std::make_shared<FlightRecorder>(owner), clock);
  }
  Event answered;
  StartCall<proto::GetFlightRecordResponse>(
      *transport.Connect("host", Lane::kControl), "/cohort.proto.CollectiveService/GetFlightRecord",
      Envelope<proto::GetFlightRecordRequest>(), absl::Minutes(1),
      [&](absl::StatusOr<Envelope<proto::GetFlightRecordResponse>> response) {
        EXPECT_TRUE(response.ok()) << response.status();
        EXPECT_EQ(response->header.groups_size(), 4);
        EXPECT_EQ(response->header.groups(0).generation(), 3u);
        EXPECT_EQ(response->header.groups(3).generation(), 6u);
        answered.Notify();
      });
  BlockingWaiter waiter;
  EXPECT_TRUE(waiter.Wait(answered, absl::Minutes(1)));
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
