#pragma once

// A program as a worker runs it: compiled, with every graph input bound to the source of its value
// and every graph output bound to its destination.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/run/program_runner.h"
#include "proto/worker.pb.h"
#include "worker/devices/replica_runners.h"
#include "worker/gang/group_sum.h"
#include "worker/ps_client/transfer_plan.h"
#include "worker/replicas/device_sums.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {

// The source of one graph input.
struct InputSource {
  enum class Kind { kBatch, kVariable, kArgument, kContext, kPositions };
  Kind kind = Kind::kContext;
  // The index that the source has among all sources of its `kind`: components of the batch,
  // variables of the pull plan, arguments, or position tensors of the lookups.
  size_t index = 0;
  proto::ContextValue context = proto::CONTEXT_UNKNOWN;
  // True for an argument that has one row per replica, of which each replica gets its own.
  bool of_replica = false;
};

// The destination of one graph output.
struct OutputSink {
  enum class Kind { kFetch, kPush, kAssign };
  Kind kind = Kind::kFetch;
  size_t index = 0;    // index of the variable in the push or assign plan
  std::string output;  // name of the output in the graph
  JoinRule join = JoinRule::kEach;
  bool stays = false;  // true if a sum made on a GPU stays on the GPU, where the variable is
  // The type and shape of the output if they are known before a run.
  DType dtype = DType::kUndefined;
  Shape shape;
};

// The lookup of rows of one table, a variable of the pull plan. The batch names the rows.
struct TableLookup {
  // A component of the batch whose values are row numbers of the table.
  struct Column {
    size_t component = 0;  // index of the component in the batch
    size_t position = 0;   // InputSource.index of the input that gets the positions of the rows
    std::string input;     // name of the input in the graph
    bool negative_is_none = false;
  };
  size_t variable = 0;
  std::vector<Column> columns;
};

// A program on this worker. Constant except for the runners; each runner is used only on the strand
// of its replica.
struct WorkerProgram {
  std::string name;
  // The fields of the registration request besides the program and the epoch. A request with other
  // fields is not a repeated one.
  std::string registration;
  uint64_t seed = 0;
  std::vector<InputSource> inputs;  // sources of the inputs, in the graph's order
  std::vector<OutputSink> outputs;  // destinations of the outputs, in the graph's order
  TransferPlan pulls;
  TransferPlan pushes;
  TransferPlan assigns;
  // For each output that assigns one row per replica to a variable: the index of this variable in
  // the pull plan. For any other output: -1.
  std::vector<int64_t> rows_before;
  // For each slice of the push plan: its ordinal in the pull plan, or -1 if the slice is not
  // pulled.
  std::vector<int64_t> pulled_ordinal;
  std::vector<TableLookup> lookups;
  size_t num_positions = 0;  // number of position tensors that all lookups give
  // For each variable of the push plan: the index of the same variable in the pull plan, whose
  // pulled rows are pushed, or -1 if the variable moves whole.
  std::vector<int64_t> pushed_rows;
  size_t num_arguments = 0;
  // Number of batch components that the program reads; 0: it reads no batch.
  size_t num_components = 0;
  bool training = false;  // true if the program changes variables
  // The settings of the group's communication. Set for a program that several workers may run
  // together.
  std::optional<GroupCommunication> communication;
  // Runners of the program, one per replica, at least one.
  std::vector<std::unique_ptr<ProgramRunner>> runners;
  // Sums over the replicas' GPUs; null: replicas leave no values on GPUs.
  std::unique_ptr<DeviceSums> device_sums;
  // The runner of the join model (Program.joined_model), on the strand of replica 0; null without a
  // join model.
  std::unique_ptr<ProgramRunner> joined_runner;
  // The indices of the graph's outputs that the join model takes and replaces.
  std::vector<size_t> joined_outputs;
};

// Loads, compiles and binds a program. Errors: INVALID_ARGUMENT that lists every unsupported node.
// INVALID_ARGUMENT naming a variable without a layout, a variable whose layout differs from the
// graph's type or shape, or a variable that several replicas change without an aggregation.
// INVALID_ARGUMENT for a join model that does not fit, and naming both ids if the content is not
// that of `program_id`. Those of MakeReplicaRunners and MakeDeviceSums.
absl::StatusOr<std::shared_ptr<const WorkerProgram>> MakeWorkerProgram(
    const proto::RegisterProgramRequest& request, std::string registration,
    const ReplicaParts& parts);

}  // namespace cohort
