#pragma once

// Internal to common/wire.

#include "absl/functional/any_invocable.h"

namespace cohort {

// Runs it soon, on a thread of gRPC: for a completion that must not run inside the call that brings
// it about.
void RunLater(absl::AnyInvocable<void()> task);

}  // namespace cohort
