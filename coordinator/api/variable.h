#pragma once

// A variable as the user of the C++ API holds it: made inside a strategy's scope it lives in slices
// on parameter servers, or in the worker where there are none, made outside it stays with the
// coordinator.

#include <optional>
#include <string>
#include <vector>

#include "common/cluster/cluster_spec.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// A component of a sharded variable.
struct VariableComponent {
  std::string name;  // "embedding/part_0"; the variable's own name when it is not cut
  Shape shape;
  std::string device;  // "/job:ps/replica:0/task:1/device:CPU:0"
};

// Immutable handle; thread-safe.
class Variable {
 public:
  // Makes a variable of the coordinator's own.
  static Variable Local(std::string name, Tensor value);
  // Makes a variable in slices on tasks of this role.
  Variable(proto::VariableLayout layout, Role homes);

  const std::string& name() const { return layout_.name(); }
  Shape shape() const;
  DType dtype() const;
  bool is_local() const { return local_value_.has_value(); }
  const Tensor& local_value() const { return *local_value_; }
  // Returns the device of the first shard.
  std::string device() const { return variables().front().device; }
  // Returns the components in row order, TensorFlow's `variables` of a sharded variable; the
  // replicas' values, if each replica has one.
  std::vector<VariableComponent> variables() const;
  const proto::VariableLayout& layout() const { return layout_; }

 private:
  std::string DeviceOf(uint32_t ps) const;
  std::vector<VariableComponent> OfReplicas() const;

  proto::VariableLayout layout_;
  Role homes_;
  std::optional<Tensor> local_value_;
};

}  // namespace cohort
