#pragma once

// Jobs under a strategy in a simulated cluster, to compare what they end with.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/sim_cluster.h"

namespace cohort {

// The elements of each variable.
using Values = std::map<std::string, std::vector<float>>;

struct RunSetup {
  int workers = 1;
  int workers_on_host = 1;
  int num_ps = 0;
  uint64_t seed = 1;      // of the simulation: the order of everything that is not ordered
  int64_t examples = 99;  // batches of 32, 32, 32 and 3
  int64_t steps = 10;
  int32_t gpus = 0;              // of each worker, of the stand-in
  FindCuda find_cuda = nullptr;  // of the workers; null: `gpus` of the stand-in
  FindNccl find_nccl = nullptr;  // of the workers; null: they have none
};

struct Trained {
  std::vector<double> losses;  // of each step
  Values values;
  std::vector<Values> copies;        // by worker, where each has one
  std::set<std::string> algorithms;  // of what the first worker did with others
};

// A run that fails is a failure of the test, and has no losses.
Trained TrainJob(const JobSpec& job, const RunSetup& setup);

// Each loss is the other's to 1e-4.
void ExpectSameCurve(const Trained& got, const Trained& wanted, const std::string& what);

// The worker that has the variables is killed at a moment of each seed, and started anew: the job
// goes on, and ends with what it ends with undisturbed. Seeds 1 to `seeds`.
void ExpectSameBitsAfterTheWorkersLoss(const JobSpec& job, const RunSetup& setup, uint64_t seeds);

// ["cpu:0","cpu:1"], of so many.
std::string Devices(int replicas);

// An override of the model: Dense, BatchNormalization, Dense; `synchronized` or not.
std::string WithStatistics(bool synchronized);

// Trains to the end of fit.epochs, evaluates, saves and exports, in the cluster that may have an
// earlier run's checkpoints. 200 examples, and 70 to test.
absl::StatusOr<TrainSummary> RunWholeJob(SimCluster& cluster, std::vector<std::string> overrides);

}  // namespace cohort
