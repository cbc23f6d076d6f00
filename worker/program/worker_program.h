#pragma once

// A program (an ONNX graph with bindings) as a worker runs it: compiled, with every graph input
// bound to the source of its value and every graph output bound to its destination.

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
  // The number of the source among the sources of its `kind`: a component of the batch, a variable
  // of the pull plan, an argument, or a position tensor of the lookups.
  size_t index = 0;
  proto::ContextValue context = proto::CONTEXT_UNKNOWN;
  // True for an argument that has one row per replica: each replica gets its own row.
  bool of_replica = false;
};

// The destination of one graph output.
struct OutputSink {
  enum class Kind { kFetch, kPush, kAssign };
  Kind kind = Kind::kFetch;
  size_t index = 0;    // number of the variable in the push plan or the assign plan; 0 for a fetch
  std::string output;  // name of the output in the graph
  JoinRule join = JoinRule::kEach;
  // True if the sum of a variable in GPU memory stays on the GPU where it was made.
  bool stays = false;
  // The type and shape of the output, or kUndefined if they are not known before a run.
  DType dtype = DType::kUndefined;
  Shape shape;
};

// The lookup of the rows of one table that the batch names. The table is a variable of the pull
// plan.
struct TableLookup {
  // A component of the batch whose values are row numbers (or keys) of the table.
  struct Column {
    size_t component = 0;  // number of the component in the batch
    // InputSource.index of the graph input that gets the positions of the rows.
    size_t position = 0;
    std::string input;  // name of the graph input that gets the positions
    bool negative_is_none = false;
  };
  size_t variable = 0;
  std::vector<Column> columns;
};

// A registered program of this worker. Constant, except that each runner changes while it runs,
// only on the strand of its replica.
struct WorkerProgram {
  std::string name;
  // The fields of the registration request, without the program and the epoch. A request with equal
  // fields is a repetition and changes nothing.
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
  size_t num_positions = 0;  // number of position tensors that all lookups give together
  // For each variable of the push plan: -1 if the variable is pushed whole. Otherwise its index in
  // the pull plan: the rows that were pulled are pushed.
  std::vector<int64_t> pushed_rows;
  size_t num_arguments = 0;
  // Number of batch components that the program needs; 0 if it reads no batch.
  size_t num_components = 0;
  bool training = false;  // true if the program pushes or assigns to variables
  // The settings by which the workers of a gang communicate; empty if the program runs on one
  // worker only.
  std::optional<GroupCommunication> communication;
  // Runners of the program, one per replica, at least one.
  std::vector<std::unique_ptr<ProgramRunner>> runners;
  // The sums of values that replicas leave on their GPUs; null if replicas leave none there.
  std::unique_ptr<DeviceSums> device_sums;
  // The runner of the join model (Program.joined_model), used on the strand of replica 0; null for
  // a program without a join model.
  std::unique_ptr<ProgramRunner> joined_runner;
  // The graph's outputs that are inputs of the join model. The join model's outputs replace them.
  std::vector<size_t> joined_outputs;
};

// Loads and compiles a program and binds it to its variables. INVALID_ARGUMENT names one of: every
// unsupported node; a variable without a layout; a variable whose layout differs from the graph's
// type or shape; a variable that several replicas change without an aggregation; an input or output
// of the join model that does not fit the graph; `program_id` and the content's own id, if they
// differ. Other errors: those of MakeReplicaRunners and MakeDeviceSums.
absl::StatusOr<std::shared_ptr<const WorkerProgram>> MakeWorkerProgram(
    const proto::RegisterProgramRequest& request, std::string registration,
    const ReplicaParts& parts);

}  // namespace cohort
