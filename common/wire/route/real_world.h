#pragma once

// The World of a daemon: the machine's clock and files, a pool of threads, and the network.

#include <memory>

#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/route/joined_transport.h"
#include "common/wire/transport.h"
#include "common/wire/world.h"

namespace cohort {

// Returns the transport of a process that serves or calls other processes. Its calls end when the
// transport is destroyed. Its channels replace connections that no longer answer
// (renewed_channel.h).
std::unique_ptr<JoinedTransport> MakeTransport(TransportKind kind);

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
    // The callbacks of calls give tasks to the pool, and tasks use the transport to begin calls,
    // which are then cancelled at once. So the transport lives until the last task has ended.
    transport_->EndCalls();
    pool_.Stop();
  }

  World world() { return World{clock_, pool_, files_, *transport_}; }

 private:
  PosixFileSystem files_;
  RealClock clock_;
  ThreadPool pool_;
  std::unique_ptr<JoinedTransport> transport_;
};

}  // namespace cohort
