#pragma once

// Makes layouts of variables one after another, as TensorFlow's parameter-server strategy does
// inside its scope. The first line that matches decides. A slice that "takes no turn" does not
// advance the round robin over the servers:
//
//   per-worker            no slice: every worker keeps its own value
//   colocated             one slice on the ps of the named variable or slice; takes no turn; never
//                         cut
//   no initial value      an error, unless the variable is loaded from a checkpoint
//   a value per replica   one slice; never cut
//   dynamic table         a slice on every ps, with equal shares of the keys; takes no turn
//   no partitioner, or a  one slice
//   scalar
//   the partitioner's     min(n, dim0) slices by the "div" rule, each to the next ps in turn
//   answer n for axis 0
//
// The partitioner's answer must not be empty; its first entry must be above 0, and all others 1. An
// optimizer's slots are not variables here, because a ps keeps them beside each slice. Slice ids
// count up over all variables, in creation order. In this file a slice is a piece: large pieces are
// cut further before they travel (variable_pieces.h).

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/layers/variable_spec.h"
#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/placement.h"
#include "proto/plan.pb.h"

namespace cohort {

struct VariableOptions {
  // The name of a variable with one slice, or of a slice such as "dense/kernel/part_1". The new
  // variable gets the same ps.
  std::string colocate_with;
  bool per_worker = false;
  bool loading = false;  // if true, a checkpoint gives the value, so no initializer is needed
  // The number of replicas that have their own values of variables with synchronization ON_READ. If
  // 0, replicas have no own values.
  int64_t replicas = 0;
};

// Makes the layouts of the variables of one scope or plan. Thread-compatible.
class VariableCreator {
 public:
  // Makes a creator for parameter servers with these ascending task indices, of which there is at
  // least one. `partitioner` may be null; it is shared by all scopes of a strategy.
  VariableCreator(std::vector<int> ps, std::shared_ptr<const Partitioner> partitioner,
                  PlacementPolicy policy = PlacementPolicy::kRoundRobin);

  // Makes the layout of a variable. A variable whose rule computes with the whole of it has one
  // slice, whatever the partitioner says. Errors: INVALID_ARGUMENT for a name that was used before,
  // a dimension below 1, a missing initial value, an aggregation or synchronization that does not
  // fit, a rule that computes with the whole variable and a variable that is a dynamic table, of
  // another shape than the rule takes, or too large for a message, an invalid answer of the
  // partitioner, or a row that is too large for a message; NOT_FOUND if `colocate_with` names no
  // variable or slice; FAILED_PRECONDITION if `colocate_with` names a variable with several slices.
  absl::StatusOr<proto::VariableLayout> CreateVariable(const VariableSpec& spec,
                                                       const proto::UpdateRule& rule,
                                                       const VariableOptions& options);

 private:
  absl::StatusOr<int64_t> NumSlices(const VariableSpec& spec, const proto::UpdateRule& rule) const;
  // Chooses the ps of slice number `slice`, and returns its task index.
  uint32_t Place(const VariableSpec& spec, int slice, int64_t bytes);
  absl::StatusOr<uint32_t> ColocatedPs(const VariableSpec& spec, const std::string& with) const;

  const std::shared_ptr<const Partitioner> partitioner_;
  const std::vector<int> ps_;
  Placer placer_;
  uint32_t next_slice_id_ = 0;
  std::map<std::string, proto::VariableLayout> created_;
};

}  // namespace cohort
