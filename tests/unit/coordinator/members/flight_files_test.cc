#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/wire/message_json.h"
#include "coordinator/members/flight_records.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::HasSubstr;

class FlightFilesTest : public testing::Test {
 protected:
  // As the worker that is `rank` of two, workers 4 and 5, wrote it.
  std::string Write(int rank, uint64_t generation, int calls) {
    proto::GroupFlight flight;
    flight.set_group("workers/1");
    flight.set_generation(generation);
    flight.set_rank(static_cast<uint32_t>(rank));
    flight.set_size(2);
    for (int i = 0; i < 2; ++i) {
      proto::TaskRef& task = *flight.add_tasks();
      task.set_role("worker");
      task.set_index(4 + i);
    }
    flight.set_ended_with("worker:9 was lost");
    for (int i = 0; i < calls; ++i) {
      flight.add_operations()->set_sequence(static_cast<uint64_t>(i));
    }
    return WriteText(absl::StrCat("/", rank, "-", generation), MessageToJson(flight).value());
  }
  std::string WriteText(const std::string& path, const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(files_, path, text).ok());
    return path;
  }
  std::string ErrorOf(const std::string& text) {
    const auto read = ReadFlightFiles(files_, {WriteText("/bad", text)}, 16);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(read.status().message());
  }

  MemoryFileSystem files_;
};

TEST_F(FlightFilesTest, AreReadAsIfTheWorkersWereAsked) {
  const auto records =
      ReadFlightFiles(files_, {Write(1, 3, 20), Write(0, 3, 10), Write(1, 4, 1)}, 16);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->workers_size(), 2);
  EXPECT_EQ(records->workers(0).task().index(), 4);
  ASSERT_EQ(records->workers(0).groups_size(), 1);
  EXPECT_EQ(records->workers(0).groups(0).operations_size(), 10);
  const proto::WorkerFlightRecord& second = records->workers(1);
  EXPECT_EQ(second.task().index(), 5);
  ASSERT_EQ(second.groups_size(), 2);
  EXPECT_EQ(second.groups(0).operations_size(), 16) << "the newest";
  EXPECT_EQ(second.groups(0).operations(0).sequence(), 4u);
  EXPECT_EQ(second.groups(1).generation(), 4u);
  EXPECT_EQ(second.groups(1).ended_with(), "worker:9 was lost");
}

TEST_F(FlightFilesTest, NamesTheFileThatIsNone) {
  EXPECT_EQ(ReadFlightFiles(files_, {"/none"}, 16).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadFlightFiles(files_, {"/none"}, 16).status().message()),
              HasSubstr("/none"));
  EXPECT_THAT(ErrorOf("no JSON"), HasSubstr("/bad: is not a flight record of a worker: "));
  EXPECT_THAT(ErrorOf(""), HasSubstr("/bad: is not a flight record of a worker: "));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("names no rank"));
  EXPECT_THAT(ErrorOf(R"({"rank": 1, "size": 2, "tasks": [{"index": 1}]})"),
              HasSubstr("not the tasks of all"));
  EXPECT_THAT(ErrorOf(R"({"rank": "first"})"), HasSubstr("/bad: "));
}

TEST_F(FlightFilesTest, ALaterVersionMayHaveMoreInThem) {
  const auto read = ReadFlightFiles(
      files_, {WriteText("/new", R"({"size": 1, "tasks": [{"index": 3}], "colour": "red"})")}, 16);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->workers(0).task().index(), 3);
}

}  // namespace
}  // namespace cohort
