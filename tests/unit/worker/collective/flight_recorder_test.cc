#include "worker/collective/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/temporary_file.h"
#include "common/wire/message_json.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FlightRecorder, SaysWhoIsWaitedForAndWhatWasDoneLast) {
  FlightRecorder recorder({{"workers", 3}, 2, 4, {}});
  EXPECT_EQ(recorder.LastDone(), "no call");
  const absl::Time start = absl::FromUnixSeconds(1000);
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.dtype = DType::kBfloat16;
  call.name = "bucket 3";
  std::vector<std::byte> memory(64);
  call.input = memory;
  recorder.Started({7, &call, CollectiveAlgorithm::kTwoShot, {0, 1, 3}}, start);
  recorder.Heard(7, 1, start + absl::Microseconds(20));
  EXPECT_THAT(recorder.Newest(1),
              HasSubstr("7 all-reduce 'bucket 3' 64 bfloat16 two-shot under-way "
                        "1970-01-01T00:16:40+00:00 20us - [0,3]"));
  EXPECT_EQ(recorder.LastDone(), "no call");
  recorder.Heard(7, 0, start + absl::Microseconds(30));
  recorder.Heard(7, 3, start + absl::Microseconds(40));
  recorder.Ended(7, absl::OkStatus(), start + absl::Microseconds(55));
  EXPECT_THAT(recorder.Newest(1), HasSubstr("done 1970-01-01T00:16:40+00:00 40us 55us []"));
  EXPECT_EQ(recorder.LastDone(), "call 7, all-reduce 'bucket 3'");
}

TEST(FlightRecorder, KeepsTheLast4096) {
  FlightRecorder recorder({{"workers", 3}, 0, 1, {}});
  CollectiveCall call;
  call.op = CollectiveOp::kBarrier;
  for (uint64_t sequence = 0; sequence < 5000; ++sequence) {
    recorder.Started({sequence, &call, CollectiveAlgorithm::kAuto, {}}, absl::UnixEpoch());
    recorder.Ended(sequence, sequence < 4999 ? absl::OkStatus() : absl::CancelledError("x"),
                   absl::UnixEpoch());
  }
  const std::vector<FlightRecord> records = recorder.Records();
  ASSERT_EQ(records.size(), 4096u);
  EXPECT_EQ(records.front().sequence, 904u);
  EXPECT_EQ(records.back().sequence, 4999u);
  EXPECT_EQ(records.back().state, FlightRecord::State::kFailed);
  EXPECT_EQ(recorder.LastDone(), "call 4998, barrier");
}

proto::TaskRef Worker(int index) {
  proto::TaskRef task;
  task.set_role("worker");
  task.set_index(index);
  return task;
}

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

TEST(FlightFile, HasAllThatIsRecorded) {
  MemoryFileSystem files;
  proto::GroupFlight flight;
  flight.set_group("workers/1");
  flight.set_generation(3);
  flight.set_ended_with("worker:2 \"was lost\"");
  proto::FlightOperation& operation = *flight.add_operations();
  operation.set_sequence(uint64_t{1} << 60);
  operation.set_state(proto::FlightOperation::FAILED);
  operation.add_waits_for(2);
  const auto path = WriteFlightFile(files, "/flights/today", Worker(1), flight,
                                    At(1700000000) + absl::Microseconds(1234));
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, "/flights/today/cohort-worker-1-20231114T221320.001234Z.flight.json");
  proto::GroupFlight read;
  ASSERT_TRUE(MessageFromJson(*ReadFile(files, *path), read).ok());
  EXPECT_EQ(read.SerializeAsString(), flight.SerializeAsString());
}

TEST(FlightFile, TheNewestFourOfAWorkerStay) {
  MemoryFileSystem files;
  for (const char* other :
       {"/cohort-worker-10-20000101T000000.000000Z.flight.json", "/cohort-worker-1-notes.txt"}) {
    ASSERT_TRUE(WriteFileAtomically(files, other, "x").ok());
  }
  // As it stands after the process ended in the middle of writing.
  const auto unfinished = files.Create("/cohort-worker-1-20000101T000000.000000Z.flight.json.tmp");
  ASSERT_TRUE(unfinished.ok());
  for (int64_t second = 0; second < 6; ++second) {
    ASSERT_TRUE(WriteFlightFile(files, "/", Worker(1), {}, At(1000000000 + second)).ok());
  }
  EXPECT_THAT(*files.List("/"),
              ElementsAre("cohort-worker-1-20010909T014642.000000Z.flight.json",
                          "cohort-worker-1-20010909T014643.000000Z.flight.json",
                          "cohort-worker-1-20010909T014644.000000Z.flight.json",
                          "cohort-worker-1-20010909T014645.000000Z.flight.json",
                          "cohort-worker-1-notes.txt",
                          "cohort-worker-10-20000101T000000.000000Z.flight.json"));
}

TEST(FlightFile, NamesTheFileThatCannotBeWritten) {
  MemoryFileSystem files;
  files.SetCapacity(1);
  const auto path = WriteFlightFile(files, "/full", Worker(1), {}, At(0));
  EXPECT_EQ(path.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(path.status().message()),
              HasSubstr("/full/cohort-worker-1-19700101T000000.000000Z.flight.json"));
}

}  // namespace
}  // namespace cohort
