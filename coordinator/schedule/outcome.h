#pragma once

// The classes of the ways in which a call for a closure ends, by what becomes of the closure. The
// class depends on ErrorDetail and on whether the transport itself failed, never on the text of an
// error.

#include "absl/status/status.h"
#include "proto/worker.pb.h"

namespace cohort {

enum class Outcome {
  kDone,
  kWorkerLost,  // the closure is put back; its worker gets no closures until it is attached again
  kTransient,   // the closure is put back
  // The closure is put back. Its worker could not reach a parameter server, which becomes a
  // suspect.
  kPsLost,
  // The closure is put back. The worker no longer holds a resource that it was given, and gets the
  // resource again.
  kForgotten,
  kFailed,  // the error is recorded in the queue, and the closure fails
  // The closure fails like kFailed: its deadline has passed, and its worker may still run it.
  kExpired,
};

Outcome ClassifyOutcome(const absl::Status& status);

// Returns the error that the failed step reports; never OK.
absl::Status ErrorOf(const proto::StepFailure& failure);

}  // namespace cohort
