#pragma once

// Functions for making plans that several strategies share.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {

// Returns the layouts of the model's variables, in creation order. Trained variables get the
// model's update rule. `replicas` becomes VariableOptions.replicas.
absl::StatusOr<std::vector<proto::VariableLayout>> LayOutVariables(const ModelPrograms& model,
                                                                   VariableCreator& creator,
                                                                   int64_t replicas);

// Cuts the pieces of a plan into slices that are small enough for one call (variable_pieces.h). All
// variables of the plan must have their homes.
void CutPieces(Plan& plan);

// Adds to the placement of each variable that a partitioner must not cut why it is whole. The
// placement has one entry per slice, in the order of the variables.
void ExplainWholes(Plan& plan);

// Returns the program with one replica on each of `devices`.
proto::Program OnDevices(const proto::Program& program, absl::Span<const std::string> devices);

// A note in a plan whose devices are not known yet.
inline constexpr char kDevicesUnknown[] =
    "no devices are named, which means all of each worker; which these are the workers say when "
    "the job starts, and this plan has cpu:0 in their place";

// The facts that PlanReplicated needs to plan synchronous training without parameter servers.
struct ReplicatedTraining {
  std::vector<int> home;             // task indices of the workers that keep variables
  std::string reason;                // why the variables are there, for people
  std::vector<std::string> devices;  // canonical names of the devices, one per replica of a worker
  int64_t replicas = 1;              // number of replicas on all workers together
  int64_t own_values = 0;            // the value for VariableOptions.replicas
  // The GPU whose memory holds the variables that are trained as a whole, such as "gpu:0". If
  // empty, all variables are in the processor's memory.
  std::string parameter_device = {};
};

// Makes a plan in which every variable is one piece, every program runs on all devices of a worker,
// and every train step is a gang. Errors: those of CheckPrograms and LayOutVariables.
absl::StatusOr<Plan> PlanReplicated(const ModelPrograms& model, const ReplicatedTraining& how);

// Checks that the programs read and update only variables of the model. Errors: INVALID_ARGUMENT
// naming the program and the variable.
absl::Status CheckPrograms(const ModelPrograms& model);

// Checks that the model fits a strategy whose steps have `replicas` replicas that cannot exchange
// values while they compute. Errors: INVALID_ARGUMENT if the model's replicas need to exchange
// values and there are several.
absl::Status CheckExchanges(const ModelPrograms& model, const std::string& type, int64_t replicas);

}  // namespace cohort
