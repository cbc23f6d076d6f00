#pragma once

// Everything of a program that its cluster uses: threads, clock, files, network, and the waiter on
// which the blocking calls of the API block.

#include "common/base/event.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/route/real_world.h"
#include "common/wire/world.h"

namespace cohort {

// Outlives every coordinator, local cluster and checkpoint manager that is made with it.
// Thread-safe.
class Runtime {
 public:
  // Makes a runtime whose pool of `threads` runs everything but the short work of calls themselves.
  explicit Runtime(int threads = 2, TransportKind transport = TransportKind::kAuto)
      : world_(threads, transport) {}

  World world() { return world_.world(); }
  Waiter& waiter() { return waiter_; }

 private:
  RealWorld world_;
  BlockingWaiter waiter_;
};

}  // namespace cohort
