// What `coordinator ctl flight-record` prints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/members/flight_records.h"

namespace cohort {
namespace {

using proto::FlightOperation;
using testing::HasSubstr;

proto::TaskRef Worker(int index) {
  proto::TaskRef task;
  task.set_role("worker");
  task.set_index(index);
  return task;
}

struct Call {
  uint64_t sequence = 0;
  FlightOperation::State state = FlightOperation::DONE;
  int64_t took_us = 0;
};

// The answer of the worker that is `rank` of three: workers 4, 5 and 6.
proto::WorkerFlightRecord Answer(int rank, const std::vector<Call>& calls) {
  proto::WorkerFlightRecord record;
  *record.mutable_task() = Worker(4 + rank);
  record.set_address("h:1");
  proto::GroupFlight& flight = *record.add_groups();
  flight.set_group("workers/1");
  flight.set_generation(3);
  flight.set_rank(static_cast<uint32_t>(rank));
  flight.set_size(3);
  for (int i = 0; i < 3; ++i) *flight.add_tasks() = Worker(4 + i);
  flight.set_last_done("no call");
  for (const Call& call : calls) {
    FlightOperation& operation = *flight.add_operations();
    operation.set_sequence(call.sequence);
    operation.set_call("all-reduce float32 'b'");
    operation.set_algorithm("two-shot");
    operation.set_bytes(4096);
    operation.set_state(call.state);
    operation.set_took_us(call.took_us);
    flight.set_calls_started(call.sequence + 1);
    if (call.state == FlightOperation::DONE) {
      flight.set_last_done(absl::StrCat("call ", call.sequence, ", all-reduce 'b'"));
    }
  }
  return record;
}

TEST(FlightText, NamesTheRankThatHasNotStartedTheCallInWhichOthersWait) {
  proto::AskFlightRecordsResponse records;
  *records.add_workers() = Answer(0, {{7, FlightOperation::DONE, 1200},
                                      {8, FlightOperation::UNDER_WAY, 3400000},
                                      {9, FlightOperation::UNDER_WAY, 3300000}});
  records.mutable_workers(0)->mutable_groups(0)->mutable_operations(1)->add_waits_for(1);
  *records.add_workers() =
      Answer(1, {{6, FlightOperation::DONE, 800}, {7, FlightOperation::DONE, 1300}});
  *records.add_workers() = Answer(2, {{8, FlightOperation::UNDER_WAY, 2000000}});
  EXPECT_EQ(FlightText(records, kNoWorkerOfTheJob),
            "group 'workers/1' of generation 3, 3 ranks\n"
            "  rank 0, worker:4: 10 calls started; last done: call 7, all-reduce 'b'\n"
            "  rank 1, worker:5: 8 calls started; last done: call 7, all-reduce 'b'\n"
            "  rank 2, worker:6: 9 calls started; last done: no call\n"
            "  call operation                       bytes rank 0                         "
            "rank 1      rank 2\n"
            "  6    all-reduce float32 'b' two-shot 4096  -                              "
            "done 800us  -\n"
            "  7    all-reduce float32 'b' two-shot 4096  done 1.2ms                     "
            "done 1.3ms  -\n"
            "  8    all-reduce float32 'b' two-shot 4096  under way 3.4s, not heard of 1 "
            "not started under way 2s\n"
            "  9    all-reduce float32 'b' two-shot 4096  under way 3.3s                 "
            "not started not started\n"
            "rank 0, rank 2 wait in call 8, all-reduce float32 'b', for rank 1, worker:5, which "
            "has not started it (last done there: call 7, all-reduce 'b')\n");
}

TEST(FlightText, SaysWhoDoesNotAnswer) {
  proto::AskFlightRecordsResponse records;
  *records.add_workers() = Answer(0, {{0, FlightOperation::UNDER_WAY, 5000}});
  *records.add_workers() = Answer(1, {{0, FlightOperation::UNDER_WAY, 5000}});
  proto::WorkerFlightRecord& silent = *records.add_workers();
  *silent.mutable_task() = Worker(6);
  silent.set_address("h:6");
  silent.set_error("the call took too long");
  const std::string text = FlightText(records, kNoWorkerOfTheJob);
  EXPECT_THAT(text, HasSubstr("worker:6 at h:6 does not answer: the call took too long\n"));
  EXPECT_THAT(text, HasSubstr("  rank 2, worker:6: does not answer: the call took too long\n"));
  silent.set_address("");
  EXPECT_THAT(FlightText(records, kNoWorkerOfTheJob),
              HasSubstr("worker:6 does not answer: the call took too long\n"));
  EXPECT_THAT(text, HasSubstr("under way 5ms under way 5ms ?\n"));
  EXPECT_THAT(text,
              HasSubstr("rank 0, rank 1 wait in call 0, all-reduce float32 'b', for rank 2, "
                        "worker:6, perhaps, which does not answer: the call took too long\n"));
}

TEST(FlightText, ShowsAnEndedGenerationBesideTheNextOne) {
  proto::AskFlightRecordsResponse records;
  *records.add_workers() = Answer(0, {{0, FlightOperation::FAILED, 5000}});
  proto::WorkerFlightRecord& worker = *records.mutable_workers(0);
  worker.mutable_groups(0)->set_ended_with("rank 1 was lost");
  proto::GroupFlight next = Answer(0, {{0, FlightOperation::UNDER_WAY, 70}}).groups(0);
  next.set_generation(4);
  next.set_size(1);
  *worker.add_groups() = next;
  const std::string text = FlightText(records, kNoWorkerOfTheJob);
  EXPECT_THAT(text, HasSubstr("generation 3, 3 ranks\n"));
  EXPECT_THAT(text, HasSubstr("failed 5ms"));
  EXPECT_THAT(text, HasSubstr("rank 0 waited in call 0, all-reduce float32 'b', for rank 1, "
                              "worker:5, perhaps, which is not a worker of the job; for rank 2, "
                              "worker:6, perhaps, which is not a worker of the job\n"
                              "it ended with: rank 1 was lost\n"
                              "group 'workers/1' of generation 4, 1 ranks\n"));
  EXPECT_THAT(text, HasSubstr("rank 0 waits in call 0, all-reduce float32 'b', which all ranks "
                              "have started\n"));
}

TEST(FlightText, NamesTheRankThatACallThatFailedHasWaitedFor) {
  proto::AskFlightRecordsResponse records;
  *records.add_workers() =
      Answer(0, {{7, FlightOperation::DONE, 1200}, {8, FlightOperation::FAILED, 3400000}});
  records.mutable_workers(0)->mutable_groups(0)->mutable_operations(1)->add_waits_for(2);
  *records.add_workers() =
      Answer(1, {{7, FlightOperation::DONE, 1300}, {8, FlightOperation::FAILED, 3300000}});
  const std::string text = FlightText(records, kNoFileOfIt);
  EXPECT_THAT(text, HasSubstr("  rank 2, worker:6: has no file here\n"));
  EXPECT_THAT(text, HasSubstr("failed 3.4s, not heard of 2 failed 3.3s ?\n"));
  EXPECT_THAT(text, HasSubstr("rank 0, rank 1 waited in call 8, all-reduce float32 'b', for rank "
                              "2, worker:6, perhaps, which has no file here\n"));
}

TEST(FlightText, NobodyWaitsWhereAllCallsAreDone) {
  proto::AskFlightRecordsResponse records;
  *records.add_workers() = Answer(0, {{7, FlightOperation::DONE, 1200}});
  EXPECT_THAT(FlightText(records, kNoFileOfIt), HasSubstr("no call is under way\n"));
}

TEST(FlightText, SaysThatThereIsNoGroup) {
  EXPECT_EQ(FlightText({}, kNoWorkerOfTheJob), "no worker has recorded a group\n");
}

}  // namespace
}  // namespace cohort
