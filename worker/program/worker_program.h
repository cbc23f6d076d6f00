#pragma once

// A program as a worker runs it: compiled, with every graph input tied to where its value comes
// from and every graph output to where it goes.

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

struct InputSource {
  enum class Kind { kBatch, kVariable, kArgument, kContext, kPositions };
  Kind kind = Kind::kContext;
  // Component of the batch, variable of the pull plan, argument, or position among all that lookups
  // give.
  size_t index = 0;
  proto::ContextValue context = proto::CONTEXT_UNKNOWN;
  bool of_replica = false;  // an argument with a row for each
};

struct OutputSink {
  enum class Kind { kFetch, kPush, kAssign };
  Kind kind = Kind::kFetch;
  size_t index = 0;    // push and assign: the variable of the plan
  std::string output;  // the output in the graph
  JoinRule join = JoinRule::kEach;
  bool stays = false;  // its sum, if made on a GPU: the variable is there
  // Its type, if known before a run.
  DType dtype = DType::kUndefined;
  Shape shape;
};

// The rows of one variable of the pull plan that a batch names.
struct TableLookup {
  struct Column {
    size_t component = 0;  // component of the batch
    size_t position = 0;   // InputSource.index of what it gives
    std::string input;     // the input in the graph
    bool negative_is_none = false;
  };
  size_t variable = 0;
  std::vector<Column> columns;
};

// Constant but for the runners: each is touched on the strand of its replica alone.
struct WorkerProgram {
  std::string name;
  std::string registration;  // what was registered, to tell a repeat from a change
  uint64_t seed = 0;
  std::vector<InputSource> inputs;  // in the graph's order
  std::vector<OutputSink> outputs;  // in the graph's order
  TransferPlan pulls;
  TransferPlan pushes;
  TransferPlan assigns;
  // The variable of the pull plan for each output that assigns to a variable with a value of each
  // replica; else -1.
  std::vector<int64_t> rows_before;
  // The ordinal in the pull plan of each slice of the push plan; -1 for a slice that is not pulled.
  std::vector<int64_t> pulled_ordinal;
  std::vector<TableLookup> lookups;
  size_t num_positions = 0;  // positions that they give
  // The variable of the pull plan whose rows each variable of the push plan takes; -1 for one that
  // moves whole.
  std::vector<int64_t> pushed_rows;
  size_t num_arguments = 0;
  size_t num_components = 0;  // 0: the program takes no batch
  bool training = false;      // it changes variables
  // Set for a program that several workers may run together.
  std::optional<GroupCommunication> communication;
  std::vector<std::unique_ptr<ProgramRunner>> runners;  // one per replica, at least one
  std::unique_ptr<DeviceSums> device_sums;              // null: replicas leave nothing on devices
  // Program.joined_model, on the strand of replica 0; may be none.
  std::unique_ptr<ProgramRunner> joined_runner;
  std::vector<size_t> joined_outputs;  // the graph's outputs that it takes and replaces
};

// Loads, compiles and binds. Errors: INVALID_ARGUMENT that lists every unsupported node; naming the
// variable without layout, or whose layout differs in type or shape from the graph's, or that
// several replicas change and that has no aggregation; for a join model that does not fit; naming
// both ids if the content is not that of `program_id`; those of MakeReplicaRunners and
// MakeDeviceSums.
absl::StatusOr<std::shared_ptr<const WorkerProgram>> MakeWorkerProgram(
    const proto::RegisterProgramRequest& request, std::string registration,
    const ReplicaParts& parts);

}  // namespace cohort
