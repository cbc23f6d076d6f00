#pragma once

// Slices of one ps to and from a TensorFlow V2 checkpoint. A variable has its own name there
// ("dense/kernel"), a slot is "<variable>/.OPTIMIZER_SLOT/<op>/<slot>"
// ("dense/kernel/.OPTIMIZER_SLOT/rmsprop/velocity"). Both are logical tensors of the whole
// variable's shape, so that any number of parameter servers can read them back.
//
// A checkpoint is also a cut, to which training can go back exactly: beside each slice lies a whole
// int64 tensor "<variable>/.COHORT_APPLIED/<first row>" of its history, taken at the same instant:
// number of rows, version, watermark, and then first and last id of each interval of applied
// closures. It fits these slices alone; others can read the checkpoint, but not as a cut.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "proto/ps.pb.h"
#include "ps_server/variable_shard.h"

namespace cohort {

std::string SlotTensorName(const SliceLayout& layout, const std::string& slot);
std::string HistoryTensorName(const SliceLayout& layout);

struct ShardTarget {
  std::string prefix;
  int shard = 0;
  int num_shards = 1;
};

// A tensor that the coordinator has saved beside the slices, whole.
struct ExtraTensor {
  std::string name;
  Tensor value;
};

// Errors: INVALID_ARGUMENT naming the tensor when its type, shape and bytes do not agree.
absl::StatusOr<std::vector<ExtraTensor>> ExtrasOf(const proto::SaveShardRequest& request);

// Leases all slices first, which copies nothing and keeps values and slots as they are, then writes
// them while pushes go on. Errors: those of the gate; those of the file
// system, naming the path.
absl::StatusOr<std::vector<proto::SavedSlice>> SaveShards(FileSystem& files,
                                                          const ShardTarget& target,
                                                          absl::Span<VariableShard* const> shards,
                                                          absl::Span<const ExtraTensor> extras,
                                                          VariableShard::AskGate gate);

struct RestoreSource {
  std::string prefix;
  bool slots = false;    // false: variables alone, slots stay
  bool applied = false;  // a cut: slots and histories too
};

struct LoadedShards {
  std::vector<VariableShard::State> states;  // in the order of the shards
  uint32_t tensors = 0;                      // logical ones: variables and slots
};

// Errors: NOT_FOUND listing the nearest names that the checkpoint has; INVALID_ARGUMENT for another
// type or shape; FAILED_PRECONDITION for a cut of other slices; DATA_LOSS.
absl::StatusOr<LoadedShards> LoadShards(FileSystem& files, const RestoreSource& source,
                                        absl::Span<VariableShard* const> shards);

// The cut before the first push. Errors: INVALID_ARGUMENT from an initializer.
absl::StatusOr<LoadedShards> InitialShards(absl::Span<VariableShard* const> shards);

}  // namespace cohort
