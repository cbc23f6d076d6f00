#pragma once

// The part that planners share.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {

// Layouts of the model's variables, in creation order; those that are trained have its rule.
// `replicas` as VariableOptions.replicas.
absl::StatusOr<std::vector<proto::VariableLayout>> LayOutVariables(const ModelPrograms& model,
                                                                   VariableCreator& creator,
                                                                   int64_t replicas);

// Cuts the pieces of a plan whose variables are all placed into the slices that travel
// (variable_pieces.h).
void CutPieces(Plan& plan);

// Returns the program with a replica on each of the devices.
proto::Program OnDevices(const proto::Program& program, absl::Span<const std::string> devices);

// The note of a plan whose devices are not known.
inline constexpr char kDevicesUnknown[] =
    "no devices are named, which means all of each worker; which these are the workers say when "
    "the job starts, and this plan has cpu:0 in their place";

// Synchronous training without parameter servers.
struct ReplicatedTraining {
  std::vector<int> home;             // the worker that keeps the variables
  std::string reason;                // why there, for people
  std::vector<std::string> devices;  // canonical, of the replicas of a worker
  int64_t replicas = 1;              // on all workers
  int64_t own_values = 0;            // VariableOptions.replicas
  // "gpu:0": in its memory are the variables that are trained as a whole; none: in the processor's.
  std::string parameter_device = {};
};

// Plans every variable in one piece, every program on all devices of a worker, every step as a
// gang. Errors: those of CheckPrograms and LayOutVariables.
absl::StatusOr<Plan> PlanReplicated(const ModelPrograms& model, const ReplicatedTraining& how);

// Errors: INVALID_ARGUMENT naming a program that is bound to a variable that the model does not
// have.
absl::Status CheckPrograms(const ModelPrograms& model);

// Checks exchanges. Errors: INVALID_ARGUMENT for a model whose replicas exchange values while they
// compute, if a step of the strategy has several.
absl::Status CheckExchanges(const ModelPrograms& model, const std::string& type, int64_t replicas);

}  // namespace cohort
