#pragma once

#include <memory>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/wire/transport.h"

namespace cohort {

// Frames over plain TCP, as between hosts, for a ThreadLaneWorld.
std::unique_ptr<Transport> OverTcp(Clock& clock, Executor& executor);

}  // namespace cohort
