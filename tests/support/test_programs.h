#pragma once

// Small programs that many tests run.

#include <cstdint>
#include <string>

#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

// Pushes 1 to the float scalar `variable`, whose rule is AssignAdd, and fetches 1.
proto::Program IncrementProgram(const std::string& variable);
proto::UpdateRule AssignAdd();
// Fetches the float scalar `variable`.
proto::Program ReadProgram(const std::string& variable);

// Fetches its only argument, a float32[-1].
proto::Program EchoProgram();

// Fetches component 0 of its input, an int64[-1] batch.
proto::Program BatchProgram();

// Fetches the index of the worker that runs it, an int64 scalar.
proto::Program WorkerIndexProgram();

// Fails on every worker: its input must be float32[2], and callers give it something else.
proto::Program PickyProgram();

}  // namespace cohort
