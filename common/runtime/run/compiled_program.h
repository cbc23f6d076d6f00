#pragma once

// The compiled form of a graph. A value of the graph is identified by an index; the value's name is
// kept for messages only. Every node has a kernel bound to it, and nodes that no output needs are
// removed. The order of nodes is topological; where several orders are possible, it is the order of
// the model.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/kernel/kernel_registry.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct CompiledNode {
  std::string name;
  std::string op;  // the operator as messages name it: "cohort.ReluGrad" or "Relu"
  bool on_device = false;
  std::unique_ptr<Kernel> kernel;
  std::vector<int> inputs;  // index of each input's value, or -1 for an absent optional input
  // Index of each output's value, or -1 for an output that nothing reads.
  std::vector<int> outputs;
  std::vector<int> dying;  // values whose last reader is this node
  // Positions in the graph's outputs of the outputs that this node computes.
  std::vector<size_t> gives;
};

// The type and shape that a graph input must have. If has_shape is false, any shape is accepted.
struct InputSpec {
  struct Dim {
    int64_t size = -1;  // the extent that the axis must have; -1: any
    // Axes with equal symbols must have equal extents in one run. An axis whose symbol is "" has no
    // symbol.
    std::string symbol;
  };
  std::string name;
  int value = 0;
  DType dtype = DType::kUndefined;  // the required type; kUndefined: any type is accepted
  bool has_shape = false;
  std::vector<Dim> dims;
};

struct BoundConstant {
  int value = 0;
  Tensor tensor;
};

// A graph whose values are indexed and whose nodes have kernels. Immutable; thread-safe.
class CompiledProgram {
 public:
  static constexpr int kAfterTheEnd = 1 << 30;

  int num_values() const { return static_cast<int>(last_use.size()); }

  // The members below are constant after compilation. They are public because the runner reads them
  // all.
  std::vector<CompiledNode> nodes;
  std::vector<InputSpec> inputs;
  std::vector<BoundConstant> constants;
  std::vector<int> outputs;
  // Positions in `outputs` of the graph outputs that are inputs or weights, which no node computes.
  std::vector<size_t> given;
  std::vector<std::string> value_names;
  std::vector<bool> on_device;  // whether each value is in the device's memory
  // The index of the last node that reads each value. The index is the number of nodes for a value
  // in host memory that a device reads, and kAfterTheEnd for a graph output.
  std::vector<int> last_use;
};

}  // namespace cohort
