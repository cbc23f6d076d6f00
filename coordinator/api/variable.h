#pragma once

// A variable as the user of the C++ API holds it. A variable made inside a strategy's scope lives
// in slices on parameter servers, or in the worker if the cluster has no parameter servers. A
// variable made outside a scope stays in the coordinator.

#include <optional>
#include <string>
#include <vector>

#include "common/cluster/cluster_spec.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// A component of a sharded variable, as TensorFlow's `ShardedVariable.variables` lists them.
struct VariableComponent {
  // The component's name: "embedding/part_0", or the variable's own name if the variable is not
  // cut.
  std::string name;
  Shape shape;
  std::string device;  // device name: "/job:ps/replica:0/task:1/device:CPU:0"
};

// A handle of a variable. Immutable. Thread-safe.
class Variable {
 public:
  // Makes a variable whose value stays in the coordinator.
  static Variable Local(std::string name, Tensor value);
  // Makes a handle of a variable whose slices live on tasks of the role `homes`.
  Variable(proto::VariableLayout layout, Role homes);

  const std::string& name() const { return layout_.name(); }
  Shape shape() const;
  DType dtype() const;
  bool is_local() const { return local_value_.has_value(); }
  const Tensor& local_value() const { return *local_value_; }
  // Returns the device of the variable's first component.
  std::string device() const { return variables().front().device; }
  // Returns the components in row order, like `variables` of TensorFlow's ShardedVariable. If the
  // variable has one value per replica, returns one component per replica.
  std::vector<VariableComponent> variables() const;
  const proto::VariableLayout& layout() const { return layout_; }

 private:
  std::string DeviceOf(uint32_t ps) const;
  std::vector<VariableComponent> ComponentOfEachReplica() const;

  proto::VariableLayout layout_;
  Role homes_;
  std::optional<Tensor> local_value_;
};

}  // namespace cohort
