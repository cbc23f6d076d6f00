#include "tests/sim/gang_table.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gradients.h"
#include "common/tensor/slice_spec.h"
#include "tests/support/sequence_rng.h"

namespace cohort {

namespace {

constexpr uint64_t kTableSalt = 0x7ab1e;
constexpr char kTable[] = "table";

}  // namespace

std::optional<GangTable> GangTable::Draw(uint64_t seed) {
  SequenceRng rng(Mix64(seed ^ kTableSalt));
  if (rng.Below(3) != 0) return std::nullopt;
  GangTable table;
  table.policy.set_row_dtype(static_cast<int32_t>(DType::kFloat32));
  table.policy.set_admit_after(std::array{1, 2, 4}[rng.Below(3)]);
  if (rng.Below(3) == 0) table.policy.set_ttl_ms(static_cast<int64_t>(100 + rng.Below(1500)));
  return table;
}

VariableSpec GangTable::Variable() const {
  VariableSpec spec;
  spec.name = kTable;
  spec.shape = Shape{kKeyBuckets, 1};
  spec.initializer.set_op("zeros");
  spec.aggregation = proto::AGGREGATION_SUM;
  spec.dynamic = policy;
  return spec;
}

std::string GangTable::Describe() const {
  return absl::StrCat(" table admit_after=", policy.admit_after(), " ttl=", policy.ttl_ms(), "ms");
}

std::string ReadTable(GraphBuilder& graph, proto::Program& program) {
  const std::string keys = graph.Input("keys", DType::kInt64, {-1});
  proto::InputBinding* const batch = program.add_inputs();
  batch->set_input(keys);
  batch->set_batch_component(0);
  batch->set_rows_of(kTable);
  const std::string rows = graph.Input(kTable, DType::kFloat32, {-1, 1}, "rows");
  proto::InputBinding* const variable = program.add_inputs();
  variable->set_input(rows);
  variable->set_variable(kTable);
  return graph.Op("ReduceSum", {graph.Op("Gather", {rows, keys})}, {IntAttribute("keepdims", 0)});
}

absl::Status AddTableUpdate(const std::string& sum, proto::Program& program) {
  onnx::ModelProto model;
  if (!model.ParseFromString(program.model())) return absl::InternalError("a model of its own");
  ASSIGN_OR_RETURN(const GradientGraph gradients, AddGradients(model, sum, {kTable}));
  program.set_model(gradients.model.SerializeAsString());
  proto::OutputBinding* const push = program.add_outputs();
  push->set_output(gradients.gradients[0]);
  push->set_push(kTable);
  return absl::OkStatus();
}

}  // namespace cohort
