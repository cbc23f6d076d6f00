#pragma once

// The world of a task. Production code gets the machine's clock, threads, files and network; tests
// give simulated ones.

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/file_system.h"
#include "common/wire/transport.h"

namespace cohort {

// The interfaces through which a task reaches everything outside the process. A task's constructors
// receive the World as a parameter, so that a whole cluster can run in one process under one seed.
// The parts of the World outlive the task.
struct World {
  Clock& clock;
  Executor& executor;
  FileSystem& files;
  Transport& transport;
};

}  // namespace cohort
