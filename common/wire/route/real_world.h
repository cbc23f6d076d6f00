#pragma once

// The world of a daemon: the machine's clock and files, a pool of threads, the network.

#include <memory>

#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/route/make_transport.h"
#include "common/wire/world.h"

namespace cohort {

// Thread-safe.
class RealWorld {
 public:
  // Makes a world whose pool of `threads` runs everything but the short work of calls themselves.
  explicit RealWorld(int threads, TransportKind transport = TransportKind::kAuto)
      : pool_({"pool", threads}), transport_(MakeTransport(transport)) {}

  ~RealWorld() {
    transport_.reset();  // ends its calls, which use all the rest
    clock_.Stop();       // its timers use the pool, and the pool's tasks the clock
  }

  World world() { return World{clock_, pool_, files_, *transport_}; }

 private:
  PosixFileSystem files_;
  RealClock clock_;
  ThreadPool pool_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace cohort
