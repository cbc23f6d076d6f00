#pragma once

// The beginning of a training with another program's weights (checkpoint.init_from). The values of
// the file are matched with the model's variables (common/formats/weights/match_weights.h) and
// assigned to them. The state of the file's optimizer (optimizer_state.h) becomes the variables'
// slots and the number of steps.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/formats/weights/match_weights.h"
#include "common/formats/weights/weight_file.h"
#include "coordinator/homes/ps_control.h"
#include "coordinator/job/job_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// Matches the file's values with the variables, and refuses what the job does not allow. The
// matches' `wanted` counts the variables without those of dynamic tables. Errors: those of
// MatchWeights; INVALID_ARGUMENT for a file that fits no variable, and, without skip_mismatch, for
// values of other shapes, listing all of them.
absl::StatusOr<WeightMatches> MatchInitFrom(const WeightFile& file, const JobSpec& job,
                                            absl::Span<const proto::VariableLayout> variables);

// Checks, without any task, that the file can be read and fits `variables`. If `variables` is
// empty, only the file is checked. Errors: those of InitWeights.
absl::Status CheckInitFrom(FileSystem& files, const JobSpec& job,
                           absl::Span<const proto::VariableLayout> variables);

// Sets the variables to the values of the file that checkpoint.init_from names, and, without
// weights_only, the slots of the optimizer to what the file has of them, all or none. All is set in
// the variables' homes alone: a recovery that follows puts them back to what they were, and then
// the caller begins again. Returns the number of steps that the optimizer has made: 0 if it begins
// anew. Logs which variables were matched and which have no value, which values are left over, and
// whether the optimizer goes on. Errors: those of OpenWeights and MatchWeights; INVALID_ARGUMENT
// for a file that fits no variable, and, without skip_mismatch, for values of other shapes, listing
// all of them; those of PsControl::Change.
absl::StatusOr<int64_t> InitWeights(FileSystem& files, const JobSpec& job,
                                    absl::Span<const proto::VariableLayout> variables,
                                    PsControl& ps);

}  // namespace cohort
