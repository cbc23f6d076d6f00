#pragma once

// The meaning of a call's end for its closure. The decision uses ErrorDetail and whether the
// transport itself failed, never the text of an error.

#include "absl/status/status.h"
#include "proto/worker.pb.h"

namespace cohort {

enum class Outcome {
  kDone,
  kWorkerLost,  // put back; the worker takes nothing more until the worker is attached again
  kTransient,   // the closure is put back
  kPsLost,      // put back; the worker could not reach a parameter server, which is now a suspect
  // Put back; the worker no longer holds a resource that it was given, and gets it again.
  kForgotten,
  kFailed,  // recorded as the error of the queue
  // Recorded too: the closure's deadline has passed, and its worker may still run the closure.
  kExpired,
};

Outcome ClassifyOutcome(const absl::Status& status);

// Returns the error that the failed step reports; never OK.
absl::Status ErrorOf(const proto::StepFailure& failure);

}  // namespace cohort
