#include "coordinator/api/variable.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/program/aggregation.h"
#include "coordinator/strategy/variable_pieces.h"

namespace cohort {

Variable Variable::Local(std::string name, Tensor value) {
  proto::VariableLayout layout;
  layout.set_name(std::move(name));
  layout.set_dtype(static_cast<int32_t>(value.dtype()));
  for (const int64_t dim : value.shape().dims()) layout.add_dims(dim);
  Variable variable(std::move(layout), Role::kChief);
  variable.local_value_ = std::move(value);
  return variable;
}

Variable::Variable(proto::VariableLayout layout, Role homes)
    : layout_(std::move(layout)), homes_(homes) {}

Shape Variable::shape() const { return ValueShape(layout_); }

DType Variable::dtype() const { return static_cast<DType>(layout_.dtype()); }

std::vector<VariableComponent> Variable::variables() const {
  if (is_local()) return {{name(), shape(), "/job:chief/replica:0/task:0/device:CPU:0"}};
  if (layout_.replicas() > 0) return ComponentOfEachReplica();
  std::vector<VariableComponent> shards;
  for (const VariablePiece& piece : PiecesOf(layout_)) {
    absl::InlinedVector<int64_t, 4> dims(layout_.dims().begin(), layout_.dims().end());
    // Variables are cut along axis 0 only, so a scalar is one component.
    if (!dims.empty()) dims[0] = piece.rows.count;
    shards.push_back({piece.name, Shape(absl::MakeConstSpan(dims)), DeviceOf(piece.ps)});
  }
  return shards;
}

std::string Variable::DeviceOf(uint32_t ps) const {
  return absl::StrCat("/job:", RoleName(homes_), "/replica:0/task:", ps, "/device:CPU:0");
}

std::vector<VariableComponent> Variable::ComponentOfEachReplica() const {
  std::vector<VariableComponent> values;
  for (uint32_t i = 0; i < layout_.replicas(); ++i) {
    values.push_back({i == 0 ? name() : absl::StrCat(name(), "/replica_", i), shape(),
                      DeviceOf(layout_.slices(0).ps())});
  }
  return values;
}

}  // namespace cohort
