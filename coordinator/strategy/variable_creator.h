#pragma once

// Creates layouts of variables one after another, as TensorFlow's parameter-server strategy does
// inside its scope. The decision, first match wins:
//   per-worker            no slice: every worker keeps its own
//   dynamic table         a slice on every ps, of equal shares of the keys; takes no turn
//   colocated             one slice on the ps of the named variable or slice; takes no turn; never
//                         cut
//   no initial value      an error, unless the variables are being loaded
//   no partitioner, or a  one slice
//   scalar
//   the partitioner's     min(n, dim0) slices by the "div" rule, each to the next ps in turn
//   answer n for axis 0
// The answer must be non-empty, its first entry above 0 and all others 1. Slots of an optimizer are
// no variables here: a ps keeps them beside each slice. Slice ids count up over all variables in
// creation order. What this calls a slice is a piece: large ones are cut further before they travel
// (variable_pieces.h).

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/variable_spec.h"
#include "coordinator/strategy/partitioner.h"
#include "coordinator/strategy/placer.h"
#include "proto/plan.pb.h"

namespace cohort {

struct VariableOptions {
  // Name of a variable with one slice, or of a slice ("dense/kernel/part_1").
  std::string colocate_with;
  bool per_worker = false;
  bool loading = false;  // the value comes from a checkpoint: no initial value is needed
  int64_t replicas = 0;  // replicas with values of their own of ON_READ variables; 0: none has
};

// Thread-compatible.
class VariableCreator {
 public:
  // Makes a creator for these task indices, ascending, at least one. `partitioner` may be nullptr.
  // Shared: one partitioner serves every scope of a strategy.
  VariableCreator(std::vector<int> ps, std::shared_ptr<const Partitioner> partitioner,
                  PlacementPolicy policy = PlacementPolicy::kRoundRobin);

  // Errors: INVALID_ARGUMENT for a name used before, a negative or zero dimension, no initial
  // value, an aggregation or synchronization that does not fit, a partitioner's answer that is
  // none, or a row that is too large to travel; NOT_FOUND for a `colocate_with` that names nothing;
  // FAILED_PRECONDITION where it names a variable that is cut.
  absl::StatusOr<proto::VariableLayout> CreateVariable(const VariableSpec& spec,
                                                       const proto::UpdateRule& rule,
                                                       const VariableOptions& options);

 private:
  absl::StatusOr<int64_t> NumSlices(const VariableSpec& spec) const;
  // Returns the slice's ps.
  uint32_t Place(const VariableSpec& spec, int slice, int64_t bytes);
  absl::StatusOr<uint32_t> ColocatedPs(const VariableSpec& spec, const std::string& with) const;

  const std::shared_ptr<const Partitioner> partitioner_;
  const std::vector<int> ps_;
  Placer placer_;
  uint32_t next_slice_id_ = 0;
  std::map<std::string, proto::VariableLayout> created_;
};

}  // namespace cohort
