#pragma once

// A training that begins with the weights of another program's file (checkpoint.init_from). The
// file's values are matched with the model's variables (common/formats/weights/match_weights.h) and
// assigned to them. The optimizer begins anew.

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
absl::StatusOr<WeightMatches> MatchInitFrom(const WeightFile& file, const InitFromSpec& init,
                                            absl::Span<const proto::VariableLayout> variables);

// Checks, before any task is needed, that the file can be read and fits the variables, as far as
// these are known; with none of them only the file is looked at. Errors: those of InitWeights.
absl::Status CheckInitFrom(FileSystem& files, const InitFromSpec& init,
                           absl::Span<const proto::VariableLayout> variables);

// Sets the variables to the file's values, in their homes alone: a recovery that follows puts the
// variables back to what they were, and then the caller begins again. Logs which variables were
// matched and which have no value, and which values are left over. Errors: those of
// OpenWeights and MatchWeights; INVALID_ARGUMENT for a file that fits no variable, for variables
// with a moving average (use_ema), and, without skip_mismatch, for values of other shapes, listing
// all of them; those of PsControl::Change.
absl::Status InitWeights(FileSystem& files, const InitFromSpec& init,
                         absl::Span<const proto::VariableLayout> variables, PsControl& ps);

}  // namespace cohort
