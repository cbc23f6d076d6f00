#pragma once

// Makes a worker process a home of variables: its server has a PsService beside the WorkerService.
// Of all code, only this file knows both the worker and the parameter server.

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "worker/service/worker_task.h"

namespace cohort {

// The limits of a worker's variables home.
struct VariablesHomeOptions {
  size_t resident_bytes_max = size_t{64} << 30;  // limit of the bytes of values and optimizer slots
  // Limit of the bytes of requests that other processes send.
  size_t receive_bytes_max = size_t{1} << 30;
  size_t send_bytes_max = size_t{1} << 30;  // limit of the bytes of answers to pulls
  std::string grant_file;  // file of the granted epoch (ps_server/grant_file.h); empty: no file
};

// Adds a variables home to the options of a worker. Variables may be placed in the memory of the
// worker's GPUs. Errors: those of reading the grant file.
absl::Status AddVariablesHome(const VariablesHomeOptions& home, FileSystem& files,
                              WorkerTask::Options& worker);

}  // namespace cohort
