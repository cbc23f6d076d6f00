#include "common/checkpoint/tracked_checkpoint.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/object_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/object_graph.pb.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

absl::StatusOr<Tensor> Read(const std::string& name) {
  if (name == "lost") return absl::DataLossError("lost");
  return Tensor::Scalar<float>(name == "dense/bias" ? 2 : 1);
}

TEST(TrackedCheckpoint, HasTheValuesAndTheirWays) {
  MemoryFileSystem disk;
  const std::vector<TrackedVariable> variables = {
      {"dense/kernel", {"model/layer_with_weights-0/kernel", "model/_operations/1/_kernel"}},
      {"dense/bias", {"model/layer_with_weights-0/bias", "model/_operations/1/bias"}},
      {"dense/bias/m", {"optimizer/_momentums/0"}, "Adam/m/dense/bias"}};
  // A checkpoint that is there is replaced.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(WriteTrackedCheckpoint(disk, "m", variables, Read).ok());
  }
  const auto reader = BundleReader::Open(disk, "m");
  ASSERT_TRUE(reader.ok()) << reader.status();
  // The plain name is one more key of the same bytes.
  for (const char* key : {"dense/bias/.ATTRIBUTES/VARIABLE_VALUE", "dense/bias"}) {
    const auto value = (*reader)->Read(key);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_THAT(value->span<float>(), ElementsAre(2));
  }
  const auto counter = (*reader)->Read("save_counter/.ATTRIBUTES/VARIABLE_VALUE");
  ASSERT_TRUE(counter.ok()) << counter.status();
  EXPECT_THAT(counter->span<int64_t>(), ElementsAre(1));
  const auto graph = ParseObjectGraph((*reader)->ReadStrings(kObjectGraphKey)->at(0));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->values.size(), 4u);
  EXPECT_EQ(graph->values[0].path, "layer_with_weights-0/kernel");
  EXPECT_EQ(graph->values[0].full_name, "dense/kernel");
  EXPECT_EQ(graph->values[2].path, "optimizer/_momentums/0");
  EXPECT_EQ(graph->values[2].full_name, "Adam/m/dense/bias");
  EXPECT_EQ(graph->values[3].path, "save_counter");
}

// Returns the ways to all values of the graph in a checkpoint, by the values' keys.
std::map<std::string, std::set<std::string>> WaysIn(MemoryFileSystem& disk) {
  const auto reader = BundleReader::Open(disk, "m");
  EXPECT_TRUE(reader.ok()) << reader.status();
  proto::TrackedObjectGraph graph;
  EXPECT_TRUE(graph.ParseFromString((*reader)->ReadStrings(kObjectGraphKey)->at(0)));
  std::map<std::string, std::set<std::string>> ways;
  std::function<void(int, const std::string&)> walk = [&](int node, const std::string& way) {
    for (const auto& value : graph.nodes(node).attributes()) {
      ways[value.checkpoint_key()].insert(way);
    }
    for (const auto& child : graph.nodes(node).children()) {
      walk(child.node_id(), absl::StrCat(way, "/", child.local_name()));
    }
  };
  walk(0, "");
  return ways;
}

TEST(TrackedCheckpoint, AllWaysLeadToOneValueFromTheRootAndTheModel) {
  MemoryFileSystem disk;
  const std::vector<TrackedVariable> variables = {
      {"a", {"model/l/kernel", "model/_operations/1/_kernel", "optimizer/_trainable_variables/0"}},
      {"m", {"optimizer/_momentums/0"}}};
  ASSERT_TRUE(WriteTrackedCheckpoint(disk, "m", variables, Read).ok());
  const auto ways = WaysIn(disk);
  EXPECT_THAT(ways.at("a/.ATTRIBUTES/VARIABLE_VALUE"),
              UnorderedElementsAre("/model/l/kernel", "/model/_operations/1/_kernel", "/l/kernel",
                                   "/_operations/1/_kernel", "/optimizer/_trainable_variables/0",
                                   "/model/optimizer/_trainable_variables/0"));
  EXPECT_THAT(ways.at("m/.ATTRIBUTES/VARIABLE_VALUE"),
              UnorderedElementsAre("/optimizer/_momentums/0", "/model/optimizer/_momentums/0"));
  EXPECT_THAT(ways.at("save_counter/.ATTRIBUTES/VARIABLE_VALUE"), ElementsAre("/save_counter"));
}

TEST(TrackedCheckpoint, WaysThatAreTakenOrEmptyAreRefused) {
  const TrackedVariable first = {"a", {"model/layer/kernel"}};
  for (const TrackedVariable& second :
       {TrackedVariable{"b", {"model/layer/kernel"}}, TrackedVariable{"b", {"model/layer"}},
        TrackedVariable{"b", {"model/layer/kernel/x"}}, TrackedVariable{"b", {"model/layer//x"}},
        TrackedVariable{"b", {"model/x", "model/layer/kernel"}}, TrackedVariable{"b", {""}},
        TrackedVariable{"b", {}}, TrackedVariable{"a", {"model/other"}}}) {
    MemoryFileSystem disk;
    const absl::Status status =
        WriteTrackedCheckpoint(disk, "m", std::vector<TrackedVariable>{first, second}, Read);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << absl::StrJoin(second.paths, " ");
    EXPECT_THAT(std::string(status.message()), HasSubstr(second.name));
    EXPECT_FALSE(disk.Open("m.data-00000-of-00001").ok());
  }
}

TEST(TrackedCheckpoint, AValueThatCannotBeReadLeavesWhatWasThere) {
  MemoryFileSystem disk;
  ASSERT_TRUE(
      WriteTrackedCheckpoint(disk, "m", std::vector<TrackedVariable>{{"a", {"model/x"}}}, Read)
          .ok());
  const absl::Status status =
      WriteTrackedCheckpoint(disk, "m", std::vector<TrackedVariable>{{"lost", {"model/x"}}}, Read);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_TRUE(BundleReader::Open(disk, "m").ok());
  EXPECT_EQ(disk.List(".")->size(), 2u);
}

}  // namespace
}  // namespace cohort
