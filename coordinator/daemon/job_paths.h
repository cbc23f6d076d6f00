#pragma once

// The paths that a job and its flags name: what it reads, what it writes, and which mistakes in
// them show before anything is started. An output must not be an input: a job whose model is
// exported to its own job file would train to its end and then destroy what the next start needs.
// Files are compared by what they are on this machine's disks, not by their names.

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/cluster/environment.h"
#include "coordinator/job/job_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

// A job with the flags that name paths beside it. Refers to the job.
struct JobPlaces {
  const JobSpec& job;
  std::string job_file;
  std::string membership;       // the value of --membership; empty: not given
  std::string state_directory;  // the value of --state_dir; empty: not given
  bool has_local_tasks = false;
};

// Returns the directory of recovery checkpoints; empty if the job keeps none, or if it will be in a
// state directory that does not exist yet.
std::string RecoveryDirectoryOf(const JobPlaces& places);

// Returns one problem for each path that only a shell would expand.
std::vector<std::string> UnexpandedPaths(const JobPlaces& places, const Environment& environment);

// Returns one problem for each output that cannot be what it has to be, a directory or a file, and
// for each that would replace an input or another output. Creates nothing.
std::vector<std::string> OutputProblems(const JobPlaces& places, const Environment& environment,
                                        FileSystem& files);

// Checks what the job begins from. If it goes on from a recovery checkpoint, that must have been
// made by the same job with the same settings. Else the checkpoint of checkpoint.restore must be
// there and whole, as far as its index and the sizes of its files tell, and have `variables`, as
// far as these are known; "latest" may find nothing. Errors: those of RecoveryStore::ReadLeft,
// RecoveryStore::CheckJob, TrainProgress::CheckSettings and CheckRestorable.
absl::Status CheckBeginning(const JobPlaces& places, FileSystem& files,
                            absl::Span<const proto::VariableLayout> variables);

}  // namespace cohort
