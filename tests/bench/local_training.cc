#include "tests/bench/local_training.h"

#include <utility>

#include "common/base/status.h"
#include "common/program/program.h"
#include "coordinator/model/learning_rate.h"
#include "worker/step/row_lookup.h"

namespace cohort::bench {

LocalTraining::LocalTraining(const JobSpec& job, ModelPrograms programs)
    : job_(job), programs_(std::move(programs)) {}

absl::StatusOr<std::unique_ptr<LocalTraining>> LocalTraining::Create(
    const JobSpec& job, const proto::ElementSpec& batch, const KernelRegistry& registry) {
  ASSIGN_OR_RETURN(ModelPrograms programs, BuildPrograms(job, batch));
  std::unique_ptr<LocalTraining> training(new LocalTraining(job, std::move(programs)));
  ASSIGN_OR_RETURN(training->model_, LoadProgram(training->programs_.train_step));
  ASSIGN_OR_RETURN(auto program, CompileProgram(training->model_, registry));
  training->runner_ = std::make_unique<ProgramRunner>(std::move(program));
  RETURN_IF_ERROR(training->MakeVariables());
  training->FindTables();
  return training;
}

absl::Status LocalTraining::MakeVariables() {
  for (const VariableSpec& spec : programs_.variables) {
    proto::UpdateRule rule;
    rule.set_op("assign_add");  // the rule of variables that no optimizer updates
    if (spec.trainable) {
      rule = spec.rule.value_or(programs_.update_rule);
      rule.set_sparse(spec.sparse);
    }
    ASSIGN_OR_RETURN(LocalVariable variable, LocalVariable::Create(spec, rule));
    variables_.emplace(spec.name, std::move(variable));
  }
  return absl::OkStatus();
}

void LocalTraining::FindTables() {
  const proto::Program& program = programs_.train_step;
  inputs_.resize(static_cast<size_t>(program.inputs_size()));
  for (int i = 0; i < program.inputs_size(); ++i) {
    const std::string& variable = program.inputs(i).rows_of();
    if (variable.empty()) continue;
    tables_[variable].variable = variable;
    tables_[variable].id_inputs.push_back(i);
  }
}

absl::Status LocalTraining::LookUp(absl::Span<const Tensor> batch, Table& table) {
  std::vector<IdColumn> columns;
  for (const int input : table.id_inputs) {
    const proto::InputBinding& binding = programs_.train_step.inputs(input);
    columns.push_back(
        {binding.input(), &batch[binding.batch_component()], binding.negative_is_none()});
  }
  const int64_t num_rows = variables_.at(table.variable).value().shape().dim(0);
  ASSIGN_OR_RETURN(RowLookup lookup, LookUpRows(table.variable, num_rows, columns));
  for (size_t i = 0; i < columns.size(); ++i) {
    inputs_[static_cast<size_t>(table.id_inputs[i])] = std::move(lookup.positions[i]);
  }
  table.rows = std::move(lookup.rows);
  return absl::OkStatus();
}

absl::Status LocalTraining::Feed(absl::Span<const Tensor> batch) {
  for (auto& [name, table] : tables_) RETURN_IF_ERROR(LookUp(batch, table));
  const proto::Program& program = programs_.train_step;
  for (int i = 0; i < program.inputs_size(); ++i) {
    const proto::InputBinding& binding = program.inputs(i);
    Tensor& input = inputs_[static_cast<size_t>(i)];
    if (binding.has_variable()) {
      const LocalVariable& variable = variables_.at(binding.variable());
      const auto table = tables_.find(binding.variable());
      input = table == tables_.end() ? variable.value() : variable.Rows(table->second.rows);
    } else if (binding.rows_of().empty()) {
      input = batch[binding.batch_component()];
    }
  }
  return absl::OkStatus();
}

void LocalTraining::Update(absl::Span<const Tensor> outputs) {
  const UpdateNumber at = {LearningRateAt(job_.compile.optimizer, steps_),
                           static_cast<uint64_t>(steps_) + 1};
  const proto::Program& program = programs_.train_step;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const proto::OutputBinding& binding = program.outputs(static_cast<int>(i));
    if (binding.has_assign()) variables_.at(binding.assign()).Assign(outputs[i]);
    if (!binding.has_push()) continue;
    LocalVariable& variable = variables_.at(binding.push());
    const auto table = tables_.find(binding.push());
    if (table == tables_.end()) {
      variable.Apply(outputs[i], at);
    } else {
      variable.ApplyRows(table->second.rows, outputs[i], at);
    }
  }
}

absl::StatusOr<double> LocalTraining::Step(absl::Span<const Tensor> batch) {
  RETURN_IF_ERROR(Feed(batch));
  RunContext context;
  context.seed = job_.seed;
  context.step = static_cast<uint64_t>(steps_) + 1;
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, runner_->Run(inputs_, context));
  Update(outputs);
  ++steps_;
  // BuildPrograms puts the sum of the losses and the number of examples first.
  return static_cast<double>(outputs[0].data<float>()[0]) /
         static_cast<double>(outputs[1].data<float>()[0]);
}

int64_t LocalTraining::num_parameters() const {
  int64_t sum = 0;
  for (const auto& [name, variable] : variables_) {
    if (variable.trainable()) sum += variable.value().num_elements();
  }
  return sum;
}

std::vector<NamedTensor> LocalTraining::Values() const {
  std::vector<NamedTensor> values;
  for (const VariableSpec& spec : programs_.variables) {
    values.push_back({spec.name, variables_.at(spec.name).value().Clone()});
  }
  return values;
}

}  // namespace cohort::bench
