#pragma once

// A job's training in this process and this thread, without calls: the graph of the train step
// computes the gradients, and the update kernels change the variables in place. Of an embedding's
// table, the graph is given the rows that the batch names, and the update changes those rows, as
// a worker and a home do together.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/formats/tensor_file.h"
#include "common/runtime/run/program_runner.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/model_programs.h"
#include "tests/bench/local_variable.h"

namespace cohort::bench {

// Thread-compatible.
class LocalTraining {
 public:
  // Builds the job's train step for batches of the type `batch`, with the kernels of `registry`.
  // Errors: those of BuildPrograms, CompileProgram and LocalVariable::Create.
  static absl::StatusOr<std::unique_ptr<LocalTraining>> Create(const JobSpec& job,
                                                               const proto::ElementSpec& batch,
                                                               const KernelRegistry& registry);

  // Makes one step, update included, and returns the mean loss from before the update. `batch` has
  // a tensor for each component.
  absl::StatusOr<double> Step(absl::Span<const Tensor> batch);

  const onnx::GraphProto& graph() const { return model_.graph(); }
  size_t arena_bytes() const { return runner_->memory().arena_bytes; }
  // Returns the number of trainable parameters.
  int64_t num_parameters() const;
  // Returns copies of all variables, in the model's order.
  std::vector<NamedTensor> Values() const;

 private:
  // A table that the graph reads by rows.
  struct Table {
    std::string variable;
    // The inputs that take positions of ids, by their numbers among the graph's inputs.
    std::vector<int> id_inputs;
    std::vector<int64_t> rows;  // the rows that the batch names
  };

  LocalTraining(const JobSpec& job, ModelPrograms programs);
  absl::Status MakeVariables();
  void FindTables();
  absl::Status Feed(absl::Span<const Tensor> batch);
  absl::Status LookUp(absl::Span<const Tensor> batch, Table& table);
  void Update(absl::Span<const Tensor> outputs);

  const JobSpec job_;
  const ModelPrograms programs_;
  onnx::ModelProto model_;
  std::unique_ptr<ProgramRunner> runner_;
  std::map<std::string, LocalVariable> variables_;
  std::map<std::string, Table> tables_;  // by the name of the variable
  std::vector<Tensor> inputs_;
  int64_t steps_ = 0;
};

}  // namespace cohort::bench
