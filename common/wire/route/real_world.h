#pragma once

// The World of a daemon: the machine's clock and files, a pool of threads, and the network.

#include <memory>

#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"

namespace cohort {

// Returns the transport of a process that serves or calls other processes. Its calls end when the
// transport is destroyed. Its channels replace connections that no longer answer
// (renewed_channel.h).
std::unique_ptr<Transport> MakeTransport(TransportKind kind);

// The parts of a daemon's World, and the order in which they end. Thread-safe.
class RealWorld {
 public:
  // Makes a World with a pool of `threads` threads. The pool runs all tasks except the short work
  // of sending and receiving calls.
  explicit RealWorld(int threads, TransportKind transport = TransportKind::kAuto)
      : pool_({"pool", threads}), transport_(MakeTransport(transport)) {}

  ~RealWorld() {
    // Timers use the transport and the pool, so none runs after this line. The timers that calls
    // set while they end never fire.
    clock_.Stop();
    transport_.reset();  // ends the transport's calls, whose callbacks use the other parts
  }

  World world() { return World{clock_, pool_, files_, *transport_}; }

 private:
  PosixFileSystem files_;
  RealClock clock_;
  ThreadPool pool_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace cohort
