#pragma once

// The services of the process that a cluster in a C++ program uses: threads, clock, files, network,
// and a waiter. Blocking calls of the API block on the waiter.

#include <memory>

#include "common/base/event.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/world.h"

namespace cohort {

class RealWorld;

// The runtime of a C++ program. It must outlive every coordinator, local cluster and checkpoint
// manager that is made with it. Thread-safe.
class Runtime {
 public:
  // Makes a runtime with a pool of `threads` threads. All callbacks and handlers run on these
  // threads; only short work runs on the thread that calls the API.
  explicit Runtime(int threads = 2, TransportKind transport = TransportKind::kAuto);
  ~Runtime();

  World world();
  Waiter& waiter() { return waiter_; }

 private:
  const std::unique_ptr<RealWorld> world_;
  BlockingWaiter waiter_;
};

}  // namespace cohort
