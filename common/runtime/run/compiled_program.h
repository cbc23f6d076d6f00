#pragma once

// The compiled form of a graph. A value is an index; names are kept for messages. Every node has a
// bound kernel; nodes that no output needs are gone; the order is topological and keeps the model's
// order among free choices.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/kernel/kernel_registry.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct CompiledNode {
  std::string name;
  std::string op;  // named in messages: "cohort.ReluGrad" or "Relu"
  bool on_device = false;
  std::unique_ptr<Kernel> kernel;
  std::vector<int> inputs;    // value, or -1 for an absent optional input
  std::vector<int> outputs;   // value, or -1 for an output that nothing reads
  std::vector<int> dying;     // values that no later node and no graph output reads
  std::vector<size_t> gives;  // graph outputs that it computes
};

// The type and shape that a graph input must have. An empty `dims` with has_shape false accepts any
// shape.
struct InputSpec {
  struct Dim {
    int64_t size = -1;   // -1: any
    std::string symbol;  // equal symbols have equal sizes in one run; "" is free
  };
  std::string name;
  int value = 0;
  DType dtype = DType::kUndefined;  // kUndefined: any
  bool has_shape = false;
  std::vector<Dim> dims;
};

struct BoundConstant {
  int value = 0;
  Tensor tensor;
};

// Immutable; thread-safe.
class CompiledProgram {
 public:
  static constexpr int kAfterTheEnd = 1 << 30;

  int num_values() const { return static_cast<int>(last_use.size()); }

  // Constant after compilation; public because the runner walks them.
  std::vector<CompiledNode> nodes;
  std::vector<InputSpec> inputs;
  std::vector<BoundConstant> constants;
  std::vector<int> outputs;
  std::vector<size_t> given;  // the members of `outputs` that no node computes
  std::vector<std::string> value_names;
  std::vector<bool> on_device;  // per value: it is in the device's memory
  // Per value: index of the last node that reads it; the number of nodes for what is copied to a
  // device; kAfterTheEnd for graph outputs.
  std::vector<int> last_use;
};

}  // namespace cohort
