// Runs the counter job under one seed and prints the hash of its event trace: the test runs it in
// two processes.

#include <cstdio>
#include <cstdlib>

#include "tests/sim/counter_job.h"

int main(int argc, char** argv) {
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  cohort::SimCluster cluster(seed, 2, 3);
  cohort::CounterJob job;
  job.increments = 60;
  job.kills = 2;
  const auto value = cohort::RunCounterJob(cluster, job);
  std::printf("%016llx %g\n", static_cast<unsigned long long>(cluster.sim().trace_hash()),
              value.ok() ? *value : -1.0f);
  return value.ok() ? 0 : 1;
}
