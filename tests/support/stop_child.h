#pragma once

// SIGSTOP that holds: kill alone returns before the threads of the process have stopped.

#include <signal.h>
#include <sys/wait.h>

namespace cohort {

// Returns when the child stands still; SIGCONT lets it go on. False when there is no such child.
inline bool StopChild(pid_t child) {
  siginfo_t info = {};
  return kill(child, SIGSTOP) == 0 &&
         waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOWAIT) == 0;
}

}  // namespace cohort
