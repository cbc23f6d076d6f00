#pragma once

// A worker process as the home of variables: a PsService beside the WorkerService. The one place
// where the two are known at once.

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "worker/service/worker_task.h"

namespace cohort {

struct VariablesHomeOptions {
  size_t resident_bytes_max = size_t{64} << 30;  // limit of values and slots
  size_t receive_bytes_max = size_t{1} << 30;    // limit of requests from outside the process
  size_t send_bytes_max = size_t{1} << 30;       // limit of answers to pulls
  std::string grant_file;                        // ps_server/grant_file.h; empty: none
};

// Adds the home to what the worker is made of, with the memory of the GPUs that it finds. Errors:
// those of reading the grant file.
absl::Status AddVariablesHome(const VariablesHomeOptions& home, FileSystem& files,
                              WorkerTask::Options& worker);

}  // namespace cohort
