#pragma once

// The meaning of a call's end for its closure. Decided by ErrorDetail and by whether the transport
// itself failed, never by text.

#include "absl/status/status.h"
#include "proto/worker.pb.h"

namespace cohort {

enum class Outcome {
  kDone,
  kWorkerLost,  // put back; the worker takes nothing more until it is attached again
  kTransient,   // put back
  kPsLost,      // put back; the worker could not reach a parameter server, which is now a suspect
  kForgotten,   // put back; the worker no longer holds what it was given: give it again
  kFailed,      // recorded as the error of the queue
  kExpired,     // the same, at the closure's deadline; its worker may still be at it
};

Outcome ClassifyOutcome(const absl::Status& status);

// Returns the error of the step; never OK.
absl::Status ErrorOf(const proto::StepFailure& failure);

}  // namespace cohort
