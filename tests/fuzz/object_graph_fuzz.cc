#include "common/base/crc32c.h"
#include "common/checkpoint/object_graph.h"
#include "common/checkpoint/string_tensor.h"
#include "proto/object_graph.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

// A small graph with every field, and the same as a tensor of strings.
std::vector<std::string> FuzzSeeds() {
  proto::TrackedObjectGraph graph;
  for (int i = 1; i < 5; ++i) {
    auto* const object = graph.add_nodes();
    object->add_children()->set_node_id(i);
    object->mutable_children(0)->set_local_name("layer_with_weights-0");
    auto* const value = object->add_attributes();
    value->set_name("VARIABLE_VALUE");
    value->set_full_name("d1/kernel");
    value->set_checkpoint_key("d1/kernel/.ATTRIBUTES/VARIABLE_VALUE");
    auto* const slot = object->add_slot_variables();
    slot->set_original_variable_node_id(i);
    slot->set_slot_name("m");
    slot->set_slot_variable_node_id(i);
  }
  graph.add_nodes();
  return {graph.SerializeAsString(), std::string("\x01\x02", 2) + "sumsabc"};
}

void FuzzOne(absl::string_view input) {
  (void)ParseObjectGraph(input);
  (void)DecodeStringTensor(input, static_cast<int64_t>(input.size() % 7), Crc32c(input));
}

}  // namespace cohort
