// The groups of two workers that run gangs together, in a simulated world: what a worker keeps of a
// generation that has failed.

#include "worker/gang/group_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/message_json.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kFlights[] = "/flights";

class GroupSessionsTest : public testing::Test {
 protected:
  GroupSessionsTest() {
    gang_.set_generation(1);
    for (int i = 0; i < 2; ++i) {
      proto::TaskRef task;
      task.set_role("worker");
      task.set_index(i);
      workers_[i] = std::make_shared<GroupSessions>(
          World{sim_, sim_, files_[i], transport_}, find_nccl_, kFlights,
          std::make_shared<PeerReach>(World{sim_, sim_, files_[i], transport_}));
      workers_[i]->SetOwn(task);
      servers_[i] = *transport_.Listen("local:0", {workers_[i]->service()});
      proto::Peer& member = *gang_.add_members();
      *member.mutable_task() = task;
      member.set_address(servers_[i]->address());
    }
  }
  ~GroupSessionsTest() override {
    for (int i = 0; i < 2; ++i) workers_[i]->Leave();
    for (auto& group : groups_) group.reset();
    sim_.RunFor(absl::Minutes(1));
  }

  void Join() {
    for (int i = 0; i < 2; ++i) {
      workers_[i]->Join(gang_, [this, i](absl::StatusOr<std::shared_ptr<GangGroup>> group) {
        ASSERT_TRUE(group.ok()) << group.status();
        groups_[i] = *std::move(group);
      });
    }
    sim_.RunFor(absl::Seconds(10));
    ASSERT_NE(groups_[0], nullptr);
    ASSERT_NE(groups_[1], nullptr);
  }
  void Sum(int worker, const std::string& name) {
    CollectiveCall call;
    call.op = CollectiveOp::kAllReduce;
    call.dtype = DType::kFloat32;
    call.count = values_[worker].size();
    call.name = name;
    call.input = absl::MakeSpan(reinterpret_cast<std::byte*>(values_[worker].data()),
                                sizeof(values_[worker]));
    call.output = absl::MakeSpan(reinterpret_cast<std::byte*>(values_[worker].data()),
                                 sizeof(values_[worker]));
    groups_[worker]->communicator().Start(call, [](const absl::Status&) {});
    sim_.RunFor(absl::Seconds(1));
  }
  std::vector<std::string> FilesOf(int worker) {
    return files_[worker].List(kFlights).value_or(std::vector<std::string>());
  }
  proto::GroupFlight FlightOf(int worker) {
    const std::vector<std::string> names = FilesOf(worker);
    proto::GroupFlight flight;
    EXPECT_THAT(names, SizeIs(1));
    if (names.size() != 1) return flight;
    const auto text = ReadFile(files_[worker], JoinPath(kFlights, names[0]));
    EXPECT_TRUE(text.ok()) << text.status();
    EXPECT_TRUE(MessageFromJson(text.value_or(""), flight).ok()) << *text;
    return flight;
  }

  int nccl_asked_for_ = 0;
  const FindNccl find_nccl_ = [this]() -> absl::StatusOr<const NcclTable*> {
    ++nccl_asked_for_;
    return absl::FailedPreconditionError("no NCCL here");
  };
  SimWorld sim_{1};
  InProcessTransport transport_{sim_, sim_};
  std::array<MemoryFileSystem, 2> files_;
  std::array<std::shared_ptr<GroupSessions>, 2> workers_;
  std::array<std::unique_ptr<Server>, 2> servers_;
  std::array<std::shared_ptr<GangGroup>, 2> groups_;
  std::array<std::array<float, 4>, 2> values_ = {};
  proto::Gang gang_;
};

TEST_F(GroupSessionsTest, AFailedGenerationLeavesAFileWithAllItsCalls) {
  Join();
  const int calls = 100;  // more than a log line shows
  for (int i = 0; i < calls; ++i) {
    Sum(0, absl::StrCat("sum ", i));
    Sum(1, absl::StrCat("sum ", i));
  }
  Sum(0, "the last");  // for which worker 1 does not come
  testing::internal::CaptureStderr();
  const absl::Status why =
      MakeError(absl::StatusCode::kUnavailable, "worker:1 was lost", proto::TRANSIENT);
  for (int i = 0; i < 2; ++i) workers_[i]->End(gang_, why);
  sim_.RunFor(absl::Seconds(10));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(absl::StrCat("event=flight_record generation=1 calls=", calls + 1,
                                          " file=", kFlights, "/cohort-worker-0-")));
  for (int worker = 0; worker < 2; ++worker) {
    const proto::GroupFlight flight = FlightOf(worker);
    EXPECT_EQ(flight.generation(), 1u);
    EXPECT_EQ(flight.rank(), static_cast<uint32_t>(worker));
    ASSERT_EQ(flight.tasks_size(), 2);
    EXPECT_EQ(flight.tasks(1).index(), 1);
    EXPECT_EQ(flight.last_done(), "call 99, all-reduce 'sum 99'");
    EXPECT_EQ(flight.ended_with(), "worker:1 was lost");
    ASSERT_EQ(flight.operations_size(), worker == 0 ? calls + 1 : calls);
    EXPECT_THAT(flight.operations(0).call(), HasSubstr("'sum 0'"));
    EXPECT_EQ(flight.operations(calls - 1).state(), proto::FlightOperation::DONE);
  }
  const proto::FlightOperation last = FlightOf(0).operations(calls);
  EXPECT_THAT(last.call(), HasSubstr("'the last'"));
  EXPECT_NE(last.state(), proto::FlightOperation::DONE);
  EXPECT_THAT(last.waits_for(), testing::ElementsAre(1));
}

TEST_F(GroupSessionsTest, AGenerationThatIsOverLeavesNone) {
  Join();
  Sum(0, "w");
  Sum(1, "w");
  gang_.set_generation(2);
  Join();
  EXPECT_THAT(FilesOf(0), IsEmpty());
  for (int i = 0; i < 2; ++i) workers_[i]->Restart(7);
  sim_.RunFor(absl::Seconds(10));
  EXPECT_THAT(FilesOf(0), IsEmpty());
}

TEST_F(GroupSessionsTest, SaysThatAFileCannotBeWritten) {
  Join();
  files_[0].SetCapacity(1);
  testing::internal::CaptureStderr();
  workers_[0]->End(gang_, absl::InternalError("x"));
  sim_.RunFor(absl::Seconds(10));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("event=flight_record_lost generation=1 cause="), HasSubstr(kFlights),
                    HasSubstr("--flight_dir"), Not(HasSubstr("event=flight_record "))));
}

// The executor may come to the task when the worker, and the transport that the task would use, are
// gone.
TEST_F(GroupSessionsTest, AWorkerThatHasLeftFormsNoGroup) {
  gang_.set_nccl_device(0);
  std::vector<absl::Status> ends;
  for (const bool leaves : {false, true}) {
    gang_.set_generation(leaves ? 2 : 1);
    workers_[0]->Join(gang_, [&](absl::StatusOr<std::shared_ptr<GangGroup>> group) {
      ends.push_back(group.status());
    });
    if (leaves) workers_[0]->Leave();
    sim_.RunFor(absl::Seconds(1));
    EXPECT_EQ(nccl_asked_for_, 1);
  }
  ASSERT_THAT(ends, testing::Not(IsEmpty()));
  EXPECT_THAT(std::string(ends.back().message()), HasSubstr("is stopping"));
}

}  // namespace
}  // namespace cohort
