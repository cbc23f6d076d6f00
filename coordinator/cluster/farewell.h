#pragma once

// The last word of a coordinator to one task when it leaves: to end, or that it is free for any
// job. All is said under the coordinator's epoch, so a task that another coordinator has attached
// by now refuses it.

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/wire/transport.h"

namespace cohort {

enum class Farewell { kShutDown, kKeep };

// Tells one task. `done` gets what the call ended with.
void SayFarewell(const std::shared_ptr<Channel>& control, uint64_t epoch, Farewell farewell,
                 absl::AnyInvocable<void(absl::Status)> done);

// Asks one task whether it is still attached under the epoch. `done` gets what the call ended with:
// an error of class STALE where it is not.
void AskWhetherHeld(const std::shared_ptr<Channel>& control, uint64_t epoch,
                    absl::AnyInvocable<void(absl::Status)> done);

}  // namespace cohort
