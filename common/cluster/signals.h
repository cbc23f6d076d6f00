#pragma once

// The waiting of a daemon's main. SIGTERM and SIGINT are blocked in every thread, so they interrupt
// nothing; main takes them from a descriptor, together with a wake-up from inside the program (the
// Shutdown call).

namespace cohort {

// Made first in main: only threads that start later inherit the blocked signals. Wake is
// thread-safe; Wait belongs to the thread that made it.
class SignalWaiter {
 public:
  SignalWaiter();
  // Leaves the signals blocked: a second one that comes while the process is ending must not turn
  // an orderly end into a failure.
  ~SignalWaiter();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Returns SIGTERM, SIGINT, or 0 when Wake was called. After SIGINT a second SIGINT ends the
  // process at once; a second SIGTERM never does.
  int Wait();

  // Ends the present Wait, or the next one.
  void Wake();

 private:
  const int signal_fd_;
  const int wake_fd_;
};

}  // namespace cohort
