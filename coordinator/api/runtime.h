#pragma once

// The services that a program's cluster uses: threads, clock, files, network, and the waiter, on
// which blocking calls of the API wait.

#include "common/base/event.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/route/real_world.h"
#include "common/wire/world.h"

namespace cohort {

// The runtime of a program, which outlives every coordinator, local cluster and checkpoint manager
// made with it. Thread-safe.
class Runtime {
 public:
  // Makes a runtime with a pool of `threads` threads. Everything runs on these threads, except the
  // short work inside calls.
  explicit Runtime(int threads = 2, TransportKind transport = TransportKind::kAuto)
      : world_(threads, transport) {}

  World world() { return world_.world(); }
  Waiter& waiter() { return waiter_; }

 private:
  RealWorld world_;
  BlockingWaiter waiter_;
};

}  // namespace cohort
