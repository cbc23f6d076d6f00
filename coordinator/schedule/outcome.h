#pragma once

// The ways in which a call that runs a closure can end, classified by what happens to the closure
// next. The class depends on the error's ErrorDetail and on whether the transport itself failed,
// never on the text of the error.

#include "absl/status/status.h"
#include "proto/worker.pb.h"

namespace cohort {

enum class Outcome {
  kDone,
  // The closure is put back into the queue. Its worker gets no closures until the worker is
  // attached again.
  kWorkerLost,
  // The closure is put back into the queue, because another attempt may succeed.
  kTransient,
  // The closure is put back into the queue, because its worker could not reach a parameter server.
  // That server becomes a suspect.
  kPsLost,
  // The closure is put back into the queue, because its worker no longer holds a resource that it
  // was given, such as the program. The worker gets the resource again.
  kForgotten,
  kFailed,  // the closure fails with the error of the call
  // The closure fails because its deadline has passed. Its worker may still run it.
  kExpired,
};

Outcome ClassifyOutcome(const absl::Status& status);

// Returns the error of the failed step that a worker reports; never OK.
absl::Status ErrorOf(const proto::StepFailure& failure);

}  // namespace cohort
