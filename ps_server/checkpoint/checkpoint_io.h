#pragma once

// Writes the slices of one home to a TensorFlow V2 checkpoint, and reads them from one. A variable
// has its own name in the checkpoint ("dense/kernel"); a slot is named
// "<variable>/.OPTIMIZER_SLOT/<op>/<slot>" ("dense/kernel/.OPTIMIZER_SLOT/rmsprop/velocity"). Both
// are logical tensors of the whole variable's shape, so any number of parameter servers can read
// them back.
//
// A checkpoint is also a cut, to which training can go back exactly. Beside each slice it has a
// whole int64 tensor "<variable>/.COHORT_APPLIED/<first row>", taken at the same instant as the
// slice: the number of rows, version, watermark, update and round, and the intervals of applied
// closures. So it is a cut only for slices with the same rows; a home with other slices can read it
// as an ordinary checkpoint.
//
// The rows of dynamic tables are saved as table_parts.h says. For a variable with a value for each
// replica (common/program/aggregation.h), the variable's name has the one value that its
// aggregation makes of them, if there is one, and "<variable>/.COHORT_REPLICAS" has the replicas'
// rows, which the restore of a cut reads.

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

// A whole tensor that the coordinator saves beside the slices.
struct ExtraTensor {
  std::string name;
  Tensor value;
};

// Returns the extra tensors of a request. Errors: INVALID_ARGUMENT that names a tensor whose type,
// shape and bytes do not agree.
absl::StatusOr<std::vector<ExtraTensor>> ExtrasOf(const proto::HoldShardRequest& request);

// Makes a shard of all slices, which are leased: only the rows of dynamic tables and of replicas
// are copied, and values and slots stay as they are now. Errors: those of the gate;
// INVALID_ARGUMENT for an extra tensor with a bad name.
absl::StatusOr<std::shared_ptr<HeldShard>> HoldShards(ShardTarget target,
                                                      absl::Span<VariableSlice* const> shards,
                                                      absl::Span<const ExtraTensor> extras,
                                                      VariableSlice::AskGate gate);

struct LoadedShards {
  std::vector<SliceState> states;  // in the order of the slices
  uint32_t tensors = 0;            // number of logical tensors: variables and slots
};

// Plans a restore from a checkpoint that has `tensors`. A restore has three steps: this function
// says which rows of which tensors it needs, the caller gets the rows from anywhere, and
// AssembleShards makes the slices' states of them. Errors: NOT_FOUND that lists the nearest names
// in the checkpoint; INVALID_ARGUMENT for another type or shape; FAILED_PRECONDITION for a cut of
// other slices; DATA_LOSS.
absl::StatusOr<std::vector<WantedRows>> PlanRestore(const BundleTensors& tensors,
                                                    const RestoreSource& source,
                                                    absl::Span<VariableSlice* const> shards);
// Assembles the states of the slices from `rows`, the rows that `plan` asks for. Errors:
// FAILED_PRECONDITION for a cut of other slices; DATA_LOSS.
absl::StatusOr<LoadedShards> AssembleShards(const RestoreSource& source,
                                            absl::Span<VariableSlice* const> shards,
                                            absl::Span<const WantedRows> plan,
                                            std::vector<Tensor> rows);

// Runs all three steps of a restore from the files of a checkpoint. Errors: those of PlanRestore,
// AssembleShards and BundleReader.
absl::StatusOr<LoadedShards> LoadShards(FileSystem& files, const RestoreSource& source,
                                        absl::Span<VariableSlice* const> shards);

// Returns the states that the slices have before the first push. Errors: INVALID_ARGUMENT from an
// initializer.
absl::StatusOr<LoadedShards> InitialShards(absl::Span<VariableSlice* const> shards);

}  // namespace cohort
