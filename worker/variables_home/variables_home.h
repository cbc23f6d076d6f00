#pragma once

// Makes a worker process a home of variables as well: its server then has the PsService beside the
// WorkerService. Of all code, only this folder knows both the worker and the parameter server.

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "worker/service/worker_task.h"

namespace cohort {

// The limits of the home of variables in a worker, and its file.
struct VariablesHomeOptions {
  size_t resident_bytes_max = size_t{64} << 30;  // largest size of all values and optimizer slots
  // Largest size of all requests from other processes that are held at once.
  size_t receive_bytes_max = size_t{1} << 30;
  // Largest size of all answers to pulls that are held at once.
  size_t send_bytes_max = size_t{1} << 30;
  // Keeps the granted epoch over restarts (ps_server/grant_file.h); empty: none.
  std::string grant_file;
};

// Adds a home of variables to the options of a worker. Variables may be placed in the memory of the
// worker's GPUs. Errors: those of reading the grant file.
absl::Status AddVariablesHome(const VariablesHomeOptions& home, FileSystem& files,
                              WorkerTask::Options& worker);

}  // namespace cohort
