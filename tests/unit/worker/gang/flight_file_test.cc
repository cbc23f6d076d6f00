#include "worker/gang/flight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/temporary_file.h"
#include "common/wire/message_json.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
