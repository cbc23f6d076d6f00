#include "common/checkpoint/tracked_checkpoint.h"

#include "common/checkpoint/bundle.h"
#include "common/checkpoint/object_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<Tensor> Read(const std::string& name) {
  if (name == "lost") return absl::DataLossError("lost");
  return Tensor::Scalar<float>(name == "dense/bias" ? 2 : 1);
}

TEST(TrackedCheckpoint, HasTheValuesAndTheirWays) {
  MemoryFileSystem disk;
  const std::vector<TrackedVariable> variables = {{"dense/kernel", "layer_with_weights-0/kernel"},
                                                  {"dense/bias", "layer_with_weights-0/bias"}};
  // A checkpoint that is there is replaced.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(WriteTrackedCheckpoint(disk, "m", variables, Read).ok());
  }
  const auto reader = BundleReader::Open(disk, "m");
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto value = (*reader)->Read("dense/bias/.ATTRIBUTES/VARIABLE_VALUE");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_THAT(value->span<float>(), ElementsAre(2));
  const auto counter = (*reader)->Read("save_counter/.ATTRIBUTES/VARIABLE_VALUE");
  ASSERT_TRUE(counter.ok()) << counter.status();
  EXPECT_THAT(counter->span<int64_t>(), ElementsAre(1));
  const auto graph = ParseObjectGraph((*reader)->ReadStrings(kObjectGraphKey)->at(0));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->values.size(), 3u);
  EXPECT_EQ(graph->values[0].path, "layer_with_weights-0/kernel");
  EXPECT_EQ(graph->values[0].full_name, "dense/kernel");
  EXPECT_EQ(graph->values[2].path, "save_counter");
}

TEST(TrackedCheckpoint, WaysThatAreTakenOrEmptyAreRefused) {
  const TrackedVariable first = {"a", "layer/kernel"};
  for (const TrackedVariable& second :
       {TrackedVariable{"b", "layer/kernel"}, TrackedVariable{"b", "layer"},
        TrackedVariable{"b", "layer/kernel/x"}, TrackedVariable{"b", "layer//x"},
        TrackedVariable{"b", ""}, TrackedVariable{"a", "other"}}) {
    MemoryFileSystem disk;
    const absl::Status status =
        WriteTrackedCheckpoint(disk, "m", std::vector<TrackedVariable>{first, second}, Read);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << second.path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(second.name));
    EXPECT_FALSE(disk.Open("m.data-00000-of-00001").ok());
  }
}

TEST(TrackedCheckpoint, AValueThatCannotBeReadLeavesWhatWasThere) {
  MemoryFileSystem disk;
  ASSERT_TRUE(
      WriteTrackedCheckpoint(disk, "m", std::vector<TrackedVariable>{{"a", "x"}}, Read).ok());
  const absl::Status status =
      WriteTrackedCheckpoint(disk, "m", std::vector<TrackedVariable>{{"lost", "x"}}, Read);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_TRUE(BundleReader::Open(disk, "m").ok());
  EXPECT_EQ(disk.List(".")->size(), 2u);
}

}  // namespace
}  // namespace cohort
