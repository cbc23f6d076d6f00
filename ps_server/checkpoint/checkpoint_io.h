#pragma once

// Slices of one ps to and from a TensorFlow V2 checkpoint. A variable has its own name there
// ("dense/kernel"), a slot is "<variable>/.OPTIMIZER_SLOT/<op>/<slot>"
// ("dense/kernel/.OPTIMIZER_SLOT/rmsprop/velocity"). Both are logical tensors of the whole
// variable's shape, so that any number of parameter servers can read them back.
//
// A checkpoint is also a cut (slice_history.h), for the same slices alone; others can read it, but
// not as a cut. Rows of dynamic tables are as table_parts.h says. Of a variable with a value for
// each replica (common/program/replica_rows.h) the variable's name has the one value of all, where
// there is one, and "<variable>/.COHORT_REPLICAS" the rows, to which a cut goes back.

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
#include "ps_server/checkpoint/held_shard.h"
#include "ps_server/checkpoint/restore_plan.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

std::string SlotTensorName(const SliceLayout& layout, const std::string& slot);
std::string ReplicasTensorName(const SliceLayout& layout);

// A tensor that the coordinator has saved beside the slices, whole.
struct ExtraTensor {
  std::string name;
  Tensor value;
};

// Errors: INVALID_ARGUMENT naming the tensor when its type, shape and bytes do not agree.
absl::StatusOr<std::vector<ExtraTensor>> ExtrasOf(const proto::HoldShardRequest& request);

// Leases all slices, which copies nothing but rows of dynamic tables and keeps values and slots as
// they are. Errors: those of
// the gate; INVALID_ARGUMENT for an extra of a bad name.
absl::StatusOr<std::shared_ptr<HeldShard>> HoldShards(ShardTarget target,
                                                      absl::Span<VariableSlice* const> shards,
                                                      absl::Span<const ExtraTensor> extras,
                                                      VariableSlice::AskGate gate);

struct LoadedShards {
  std::vector<SliceState> states;  // in the order of the slices
  uint32_t tensors = 0;            // logical ones: variables and slots
};

// Plans a restore from a checkpoint that has these tensors. A restore has three steps: which rows
// of which tensors it needs, their values from anywhere, and what the slices get from them. Errors:
// NOT_FOUND listing the nearest names that the checkpoint has; INVALID_ARGUMENT for another type or
// shape; FAILED_PRECONDITION for a cut of other slices; DATA_LOSS.
absl::StatusOr<std::vector<WantedRows>> PlanRestore(const BundleTensors& tensors,
                                                    const RestoreSource& source,
                                                    absl::Span<VariableSlice* const> shards);
// Assembles the slices from `rows`, which are what `plan` wants. Errors: FAILED_PRECONDITION for a
// cut of other slices; DATA_LOSS.
absl::StatusOr<LoadedShards> AssembleShards(const RestoreSource& source,
                                            absl::Span<VariableSlice* const> shards,
                                            absl::Span<const WantedRows> plan,
                                            std::vector<Tensor> rows);

// Runs all three steps with files. Errors: those of the steps and of BundleReader.
absl::StatusOr<LoadedShards> LoadShards(FileSystem& files, const RestoreSource& source,
                                        absl::Span<VariableSlice* const> shards);

// Returns the cut before the first push. Errors: INVALID_ARGUMENT from an initializer.
absl::StatusOr<LoadedShards> InitialShards(absl::Span<VariableSlice* const> shards);

}  // namespace cohort
