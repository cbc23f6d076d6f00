// Object graphs: one that TensorFlow wrote (tests/golden/make_checkpoints.py), and damages.

#include "common/checkpoint/object_graph.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "common/base/crc32c.h"
#include "common/base/posix_file_system.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/string_tensor.h"
#include "proto/object_graph.pb.h"

namespace cohort {
namespace {

using testing::HasSubstr;

std::string GoldenGraph() {
  PosixFileSystem files;
  const auto reader = BundleReader::Open(files, COHORT_SOURCE_DIR "/tests/golden/checkpoint/keras");
  EXPECT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->left_out().at(kObjectGraphKey), 7);
  const auto strings = (*reader)->ReadStrings(kObjectGraphKey);
  EXPECT_TRUE(strings.ok()) << strings.status();
  EXPECT_EQ(strings->size(), 1u);
  return strings->at(0);
}

// Returns the value with this full name.
const TrackedValue* Find(const ObjectGraph& graph, const std::string& full_name) {
  for (const TrackedValue& value : graph.values) {
    if (value.full_name == full_name) return &value;
  }
  return nullptr;
}

TEST(ObjectGraph, NamesKeysAndPathsAreThoseOfTensorFlow) {
  PosixFileSystem files;
  const auto reader = BundleReader::Open(files, COHORT_SOURCE_DIR "/tests/golden/checkpoint/keras");
  const auto graph = ParseObjectGraph(GoldenGraph());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE(graph->values.empty());
  for (const TrackedValue& value : graph->values) {
    EXPECT_EQ((*reader)->tensors().count(value.key), 1u) << value.key;
    // The key of an object that has no other owner is its path.
    EXPECT_THAT(value.key, HasSubstr("/.ATTRIBUTES/VARIABLE_VALUE"));
    EXPECT_FALSE(value.path.empty()) << value.key;
  }
}

TEST(ObjectGraph, EdgesToNodesThatDoNotExistAreRefused) {
  for (const int node : {-1, 2, 1 << 30}) {
    proto::TrackedObjectGraph graph;
    graph.add_nodes()->add_children()->set_node_id(node);
    graph.add_nodes();
    EXPECT_TRUE(absl::IsInvalidArgument(ParseObjectGraph(graph.SerializeAsString()).status()));
    graph.mutable_nodes(0)->clear_children();
    graph.mutable_nodes(0)->add_slot_variables()->set_slot_variable_node_id(node);
    EXPECT_TRUE(absl::IsInvalidArgument(ParseObjectGraph(graph.SerializeAsString()).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ParseObjectGraph("\xff").status()));
  EXPECT_TRUE(ParseObjectGraph("").ok());
}

TEST(ObjectGraph, CirclesAndLongChainsEnd) {
  proto::TrackedObjectGraph circle;
  circle.add_nodes()->add_children()->set_node_id(1);
  circle.add_nodes()->add_children()->set_node_id(0);
  EXPECT_TRUE(ParseObjectGraph(circle.SerializeAsString()).ok());
  proto::TrackedObjectGraph chain;
  for (int i = 1; i < 20000; ++i) {
    auto* const child = chain.add_nodes()->add_children();
    child->set_node_id(i);
    child->set_local_name("name");
  }
  chain.add_nodes();
  const auto parsed = ParseObjectGraph(chain.SerializeAsString());
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("paths without end"));
}

TEST(ObjectGraph, SlotsOfOldOptimizersAreListed) {
  proto::TrackedObjectGraph graph;
  auto* const root = graph.add_nodes();
  for (const char* name : {"kernel", "m"}) {
    root->add_children()->set_node_id(graph.nodes_size());
    root->mutable_children(root->children_size() - 1)->set_local_name(name);
    auto* const value = graph.add_nodes()->add_attributes();
    value->set_name("VARIABLE_VALUE");
    value->set_full_name(name);
    value->set_checkpoint_key(name);
  }
  auto* const slot = graph.mutable_nodes(0)->add_slot_variables();
  slot->set_original_variable_node_id(1);
  slot->set_slot_variable_node_id(2);
  slot->set_slot_name("m");
  const auto parsed = ParseObjectGraph(graph.SerializeAsString());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->slots.size(), 1u);
  EXPECT_EQ(parsed->values[parsed->slots[0].variable].full_name, "kernel");
  EXPECT_EQ(parsed->values[parsed->slots[0].slot].path, "m");
  EXPECT_NE(Find(*parsed, "m"), nullptr);
}

TEST(ObjectGraph, NoDamageEndsTheProcess) {
  const std::string whole = GoldenGraph();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(~bytes[i]);
    (void)ParseObjectGraph(bytes);
    (void)ParseObjectGraph(absl::string_view(whole).substr(0, i));
  }
}

TEST(StringTensor, DamagesAreSeen) {
  // Two strings with their lengths and checksums, by TensorFlow's rule.
  uint32_t lengths = ExtendCrc32c(0, absl::string_view("\x01\0\0\0\x02\0\0\0", 8));
  std::string checksum;
  for (int i = 0; i < 4; ++i) checksum.push_back(static_cast<char>(MaskCrc32c(lengths) >> (8 * i)));
  const uint32_t crc = ExtendCrc32c(ExtendCrc32c(lengths, checksum), "abc");
  const std::string bytes = "\x01\x02" + checksum + "abc";
  EXPECT_EQ(*DecodeStringTensor(bytes, 2, crc), (std::vector<std::string>{"a", "bc"}));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(DecodeStringTensor(damaged, 2, crc).ok()) << i;
    EXPECT_FALSE(DecodeStringTensor(absl::string_view(bytes).substr(0, i), 2, crc).ok()) << i;
  }
  EXPECT_FALSE(DecodeStringTensor(bytes, 1, crc).ok());
  EXPECT_FALSE(DecodeStringTensor(bytes, 3, crc).ok());
  EXPECT_FALSE(DecodeStringTensor(bytes, -1, crc).ok());
  EXPECT_FALSE(DecodeStringTensor(bytes, INT64_MAX, crc).ok());
}

}  // namespace
}  // namespace cohort
