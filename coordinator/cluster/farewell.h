#pragma once

// The farewell is a coordinator's last call to a task: it tells the task to end, or that it is free
// for any job. The call carries the coordinator's epoch, so a task that another coordinator has
// attached in the meantime refuses it.

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/wire/transport.h"

namespace cohort {

enum class Farewell { kShutDown, kKeep };

// Sends the farewell to one task. `done` gets the status of the call.
void SayFarewell(const std::shared_ptr<Channel>& control, uint64_t epoch, Farewell farewell,
                 absl::AnyInvocable<void(absl::Status)> done);

// Asks one task whether it is still attached under the epoch. `done` gets the status of the call:
// an error of class STALE if the task is not.
void AskWhetherHeld(const std::shared_ptr<Channel>& control, uint64_t epoch,
                    absl::AnyInvocable<void(absl::Status)> done);

}  // namespace cohort
