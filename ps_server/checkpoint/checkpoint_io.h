#pragma once

// Writes the slices of one home to a TensorFlow V2 checkpoint, and reads slices from a checkpoint.
// In the checkpoint, a variable has its own name ("dense/kernel"), and a slot has the name
// "<variable>/.OPTIMIZER_SLOT/<op>/<slot>" ("dense/kernel/.OPTIMIZER_SLOT/rmsprop/velocity").
// Variables and slots are logical tensors of the whole variable's shape, so any number of parameter
// servers can restore them.
//
// A checkpoint is also a cut, to which training can return exactly. For each slice the checkpoint
// has the slice's history, an int64 tensor "<variable>/.COHORT_APPLIED/<first row>" that is taken
// at the same instant as the slice: the number of rows, version, watermark, update and round, and
// the intervals of applied closures. A slice restores the cut only if all of its rows lie in one
// saved slice, whose history it takes: a closure is in all rows of a saved slice or in none, but
// not so in the rows of several. Any other slices restore the checkpoint as an ordinary one.
//
// The rows of dynamic tables are saved as table_parts.h says. A variable with one row for each
// replica (common/program/aggregation.h) is saved as two tensors: under the variable's name the
// aggregated value of the rows, if the variable has an aggregation, and under
// "<variable>/.COHORT_REPLICAS" all the rows, which the restore of a cut reads.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/checkpoint/bundle.h"
#include "proto/ps.pb.h"
#include "ps_server/checkpoint/held_shards.h"
#include "ps_server/checkpoint/restore_plan.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

std::string SlotTensorName(const SliceLayout& layout, const std::string& slot);
std::string ReplicasTensorName(const SliceLayout& layout);

// A tensor that the coordinator saves in the checkpoint in addition to the slices.
struct ExtraTensor {
  std::string name;
  Tensor value;
};

// Returns the extra tensors of a HoldShard request. Errors: INVALID_ARGUMENT that names a tensor
// without a name, or one whose number of bytes does not follow from its type and shape.
absl::StatusOr<std::vector<ExtraTensor>> ExtrasOf(const proto::HoldShardRequest& request);

// Takes snapshots of all slices and returns them, with the extra tensors, as one shard. Values and
// slots are leased, not copied, and stay unchanged as long as the shard is held; rows of dynamic
// tables and of replicas are copied. Errors: those of the gate; INVALID_ARGUMENT for an extra
// tensor whose name a checkpoint does not permit.
absl::StatusOr<std::shared_ptr<HeldShard>> HoldShards(ShardTarget target,
                                                      absl::Span<VariableSlice* const> shards,
                                                      absl::Span<const ExtraTensor> extras,
                                                      VariableSlice::AskGate gate);

struct LoadedShards {
  // One state for each slice, in the order in which the slices were given.
  std::vector<SliceState> states;
  uint32_t tensors = 0;  // number of logical tensors that were restored: variables and slots
};

// Plans a restore from a checkpoint that has `tensors`. A restore has three steps: PlanRestore says
// which rows of which tensors are needed, the caller reads these rows from files or from another
// home, and AssembleShards makes the slices' states from the rows. Errors: NOT_FOUND that lists the
// nearest names in the checkpoint; INVALID_ARGUMENT for another type or shape; FAILED_PRECONDITION
// for a cut with no saved slice that has all rows of a slice; DATA_LOSS.
absl::StatusOr<std::vector<WantedRows>> PlanRestore(const BundleTensors& tensors,
                                                    const RestoreSource& source,
                                                    absl::Span<VariableSlice* const> shards);
// Makes the states of the slices from `rows`, which are the rows that `plan` lists. Errors:
// FAILED_PRECONDITION as for PlanRestore; DATA_LOSS.
absl::StatusOr<LoadedShards> AssembleShards(const RestoreSource& source,
                                            absl::Span<VariableSlice* const> shards,
                                            absl::Span<const WantedRows> plan,
                                            std::vector<Tensor> rows);

// Plans a restore, reads the rows from the checkpoint's files and makes the slices' states. Errors:
// those of PlanRestore, AssembleShards and BundleReader.
absl::StatusOr<LoadedShards> LoadShards(FileSystem& files, const RestoreSource& source,
                                        absl::Span<VariableSlice* const> shards);

// Returns the states that the slices have before the first push. Errors: INVALID_ARGUMENT from an
// initializer.
absl::StatusOr<LoadedShards> InitialShards(absl::Span<VariableSlice* const> shards);

}  // namespace cohort
