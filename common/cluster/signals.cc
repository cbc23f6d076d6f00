#include "common/cluster/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <initializer_list>

#include "common/base/check.h"

namespace cohort {

namespace {

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// Blocks SIGTERM, SIGINT and SIGHUP for the calling thread, and returns a descriptor from which
// these signals can be read. A SIGHUP that the process was started to ignore, as nohup does, stays
// ignored.
int OpenSignals() {
  sigset_t set = SetOf({SIGTERM, SIGINT});
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    sigaddset(&set, SIGHUP);
  }
  COHORT_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "signals can be blocked");
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

SignalWaiter::SignalWaiter()
    : signal_fd_(OpenSignals()), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  COHORT_CHECK(signal_fd_ >= 0 && wake_fd_ >= 0, "a starting process has two free descriptors");
}

SignalWaiter::~SignalWaiter() {
  close(signal_fd_);
  close(wake_fd_);
}

int SignalWaiter::Wait() {
  std::array<pollfd, 2> waits = {{{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}}};
  while (true) {
    if (poll(waits.data(), waits.size(), -1) < 0) {
      COHORT_CHECK(errno == EINTR, "two open descriptors can be polled");
      // A debugger or SIGCONT may interrupt poll() before any descriptor is readable, so poll() is
      // called again.
      continue;
    }
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGINT) {
        // After the first SIGINT, the signal is no longer blocked, so a second Ctrl-C ends the
        // process at once.
        const sigset_t set = SetOf({SIGINT});
        pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      }
      return signal;
    }
    uint64_t count = 0;
    if (read(wake_fd_, &count, sizeof(count)) == sizeof(count)) return 0;
  }
}

const char* SignalName(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "SIGTERM";
  }
}

void SignalWaiter::Wake() {
  const uint64_t one = 1;
  // The write fails only if the event counter is full. In that case the counter is not zero, so
  // Wait returns without this write.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

}  // namespace cohort
