#pragma once

// The farewell, which is a coordinator's last call to a task. It tells the task to end, or that the
// task is now free for any job. The call carries the coordinator's epoch. So a task that another
// coordinator has attached in the meantime refuses it.

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/transport.h"

namespace cohort {

enum class Farewell { kShutDown, kKeep };

// The usual time limit of a farewell. It is short, because a task that has already ended does not
// answer.
inline constexpr absl::Duration kFarewellTimeout = absl::Seconds(4);

// Sends the farewell to one task. `done` gets the status of the call, after at most `timeout`.
void SayFarewell(const std::shared_ptr<Channel>& control, uint64_t epoch, Farewell farewell,
                 absl::Duration timeout, absl::AnyInvocable<void(absl::Status)> done);

// Asks one task whether this coordinator still holds it under the epoch. `done` gets OK, or the
// error of the call: an error of class STALE if another coordinator holds the task.
void AskWhetherHeld(const std::shared_ptr<Channel>& control, uint64_t epoch,
                    absl::AnyInvocable<void(absl::Status)> done);

}  // namespace cohort
