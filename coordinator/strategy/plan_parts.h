#pragma once

// The parts of planning that all strategies share.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {

// Returns the layouts of the model's variables, in creation order. Trained variables get the
// model's update rule. `replicas` has the meaning of VariableOptions.replicas.
absl::StatusOr<std::vector<proto::VariableLayout>> LayOutVariables(const ModelPrograms& model,
                                                                   VariableCreator& creator,
                                                                   int64_t replicas);

// Cuts the pieces of a plan, whose variables are all placed, into slices small enough to travel
// (variable_pieces.h).
void CutPieces(Plan& plan);

// Returns the program with one replica on each of the devices.
proto::Program OnDevices(const proto::Program& program, absl::Span<const std::string> devices);

// The note in the plan of a job whose devices are not known yet.
inline constexpr char kDevicesUnknown[] =
    "no devices are named, which means all of each worker; which these are the workers say when "
    "the job starts, and this plan has cpu:0 in their place";

// The facts from which PlanReplicated plans synchronous training without parameter servers.
struct ReplicatedTraining {
  std::vector<int> home;             // task indices of the workers that keep the variables
  std::string reason;                // for people: why the variables are there
  std::vector<std::string> devices;  // canonical names, one for each replica of a worker
  int64_t replicas = 1;              // replicas on all workers together
  int64_t own_values = 0;            // value of VariableOptions.replicas
  // The GPU whose memory holds the variables that are trained as a whole, such as "gpu:0"; empty:
  // they are in the processor's memory.
  std::string parameter_device = {};
};

// Makes a plan with every variable in one piece, every program on all devices of a worker, and
// every training step as a gang. Errors: those of CheckPrograms and LayOutVariables.
absl::StatusOr<Plan> PlanReplicated(const ModelPrograms& model, const ReplicatedTraining& how);

// Checks the programs' bindings. Errors: INVALID_ARGUMENT naming a program that is bound to a
// variable that the model does not have.
absl::Status CheckPrograms(const ModelPrograms& model);

// Checks that replicas may exchange values. Errors: INVALID_ARGUMENT for a model whose replicas
// exchange values while they compute, if a step of the strategy has several replicas.
absl::Status CheckExchanges(const ModelPrograms& model, const std::string& type, int64_t replicas);

}  // namespace cohort
