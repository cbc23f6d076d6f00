#pragma once

// TensorFlow's object graph: which objects of a program the tensors of a checkpoint belong to. The
// graph's nodes are objects, its edges have the names of attributes. A value's checkpoint key
// depends on the versions of TensorFlow and Keras, so keys are not parsed: a value is found by its
// full name, which is the variable's name, or by its path.

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// The name of the string tensor that holds the graph.
inline constexpr char kObjectGraphKey[] = "_CHECKPOINTABLE_OBJECT_GRAPH";

// A variable, or another object with a value in the checkpoint.
struct TrackedValue {
  // The variable's name, without ":0": "d1/kernel", "sequential/d1/kernel", "Adam/m/d1/kernel".
  std::string full_name;
  std::string key;  // the name of the tensor in the checkpoint
  // One of the shortest ways from the root, by names: "model/layer_with_weights-0/kernel". Empty if
  // no way leads to the object.
  std::string path;
};

// A slot of an optimizer of Keras 2.10 and before, which the graph lists by itself.
struct TrackedSlot {
  size_t variable = 0;  // index in ObjectGraph::values
  size_t slot = 0;      // likewise
  std::string name;     // "m"
};

struct ObjectGraph {
  std::vector<TrackedValue> values;  // in the order of the graph's nodes
  std::vector<TrackedSlot> slots;
};

// Parses the string tensor's only element. Errors: INVALID_ARGUMENT for bytes that are no graph, an
// edge to a node that does not exist, a value without a key, or names that together are many times
// as long as the graph.
absl::StatusOr<ObjectGraph> ParseObjectGraph(absl::string_view bytes);

}  // namespace cohort
