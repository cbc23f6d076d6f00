#pragma once

// The inputs of a layer's call, as the releases of Keras write them in `inbound_nodes`.
//
// Keras 2 writes a node as a list of tensors [layer, node, tensor, kwargs]; the node of an
// operation is one such tensor without the list. Further tensors are in kwargs, as [layer, node,
// tensor]. Keras 3 writes {"args": [...], "kwargs": {...}} with tensors as objects at any depth.

#include <optional>
#include <string>
#include <vector>

#include "coordinator/json/json_reader.h"
#include "coordinator/layers/keras_file.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// Keras's name of a tensor: output `tensor` of call number `node` of a layer.
struct TensorName {
  std::string layer;
  int64_t node = 0;
  int64_t tensor = 0;
  std::string path;  // path of the field that holds the name
};

struct InboundNode {
  std::vector<TensorName> tensors;
  std::vector<std::string> arguments;  // for each tensor: CallInput::argument
  std::optional<bool> training;
  std::vector<std::string> flags;      // names of the arguments that are true
  std::vector<std::string> constants;  // names of the other arguments that are not tensors
  std::string form;                    // LayerCall::arguments, set for a plain node, too
  bool is_plain = true;                // only the first argument is given
  bool is_object = false;              // true: the node has Keras 3's form
};

// Reads [layer, node, tensor]; Keras 2's inbound nodes have a fourth entry, which the caller reads.
std::optional<TensorName> ReadTensorName(const nlohmann::json& value, const std::string& path,
                                         JsonErrors& errors);

// Reads a node; reports an error and returns nothing if it is not one.
std::optional<InboundNode> ReadInboundNode(const nlohmann::json& value, const std::string& path,
                                           JsonErrors& errors);

}  // namespace cohort
