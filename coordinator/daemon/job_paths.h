#pragma once

// The paths that a job and its flags name, for reading and for writing, and the mistakes in them
// that can be found before anything is started. No output may be an input as well: a job that
// exported its model to its own job file would train to its end, and then destroy what the next
// start needs. Two paths are the same file if they lead to the same place on this machine's disks,
// whatever their names.

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/cluster/environment.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/train/mnist_files.h"
#include "proto/plan.pb.h"

namespace cohort {

// The file in the recovery directory that the coordinator of the job has locked.
inline constexpr char kRecoveryLockFile[] = "recovery.lock";

// A job and the flags that name further paths. Holds a reference to the job.
struct JobPlaces {
  const JobSpec& job;
  std::string job_file;
  std::string membership;       // value of the flag --membership; may be empty
  std::string state_directory;  // value of the flag --state_dir; may be empty
  bool has_local_tasks = false;
};

// Returns the directory of recovery checkpoints. Returns an empty path if the job keeps none, or if
// the directory will be in a state directory that does not exist yet.
std::string RecoveryDirectoryOf(const JobPlaces& places);

// Returns the places where MNIST is searched for, as the environment names them.
MnistSearch MnistSearchOf(const Environment& environment);

// Returns one problem for each path that contains something that only a shell would expand, such as
// "~".
std::vector<std::string> UnusablePaths(const JobPlaces& places, const Environment& environment);

// Returns one problem for each output that cannot be written as the directory or file that it has
// to be, and for each that would overwrite an input or another output. Creates nothing.
std::vector<std::string> OutputProblems(const JobPlaces& places, const Environment& environment,
                                        FileSystem& files);

// Checks the checkpoint from which the job will begin. If there is a recovery checkpoint, it must
// come from the same job with the same settings. Otherwise, the checkpoint that checkpoint.restore
// names must exist and be whole, as far as its index and the sizes of its files tell, and must have
// `variables`, which may be a part of the job's variables; if "latest" finds no checkpoint, that is
// no error. Errors: those of RecoveryStore::ReadLeft, RecoveryStore::CheckJob,
// TrainProgress::CheckSettings and CheckRestorable.
absl::Status CheckBeginning(const JobPlaces& places, FileSystem& files,
                            absl::Span<const proto::VariableLayout> variables);

}  // namespace cohort
