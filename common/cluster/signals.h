#pragma once

// A SignalWaiter lets a daemon's main function wait for the end of the daemon. SIGTERM, SIGINT and,
// unless the process was started to ignore it (nohup), SIGHUP are blocked in every thread, so these
// signals interrupt no thread. The main function reads the signals from a descriptor. A second
// descriptor lets other threads wake the main function (for the Shutdown call).

namespace cohort {

// A waiter for SIGTERM, SIGINT, SIGHUP and Wake(). Must be created first in main, because only
// threads that start later inherit the blocked signals. Wake is thread-safe; Wait must be called on
// the thread that created the waiter.
class SignalWaiter {
 public:
  SignalWaiter();
  // The destructor leaves the signals blocked: a second signal during an orderly shutdown
  // must not kill the process.
  ~SignalWaiter();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Waits for a signal or for Wake(). Returns the signal, or 0 after Wake(). After one SIGINT, a
  // second SIGINT ends the process at once; a second SIGTERM or SIGHUP never ends the process.
  int Wait();

  // Makes Wait() return 0: the call that is waiting now, or else the next call.
  void Wake();

 private:
  const int signal_fd_;
  const int wake_fd_;
};

// Returns the name of a signal that Wait returns, such as "SIGTERM".
const char* SignalName(int signal);

}  // namespace cohort
