#pragma once

// The length of a thread's turns on a processor, for when more threads than processors want to run.
// Linux decides whether to take a processor away from a thread when another thread wakes up, and a
// few hundred times a second besides. A waking thread whose turns are shorter than the running
// thread's turns gets the processor at once if it has used less than its share so far. Otherwise
// the waking thread may wait some milliseconds for a processor, which is many times the duration of
// a small call. A thread with short turns is therefore given a far greater share than other
// threads, if the process has the permission (root, CAP_SYS_NICE or RLIMIT_NICE). Since such a
// thread works little, it takes almost no time from other threads.
//
// Lengths of turns exist in Linux 6.12 and later; on older kernels only the shares change. Threads
// that were given another scheduling policy from outside are left unchanged.

namespace cohort {

enum class Turns {
  kShort,  // for threads that wait much and work little at a time
  kUsual,  // for computing: the system's default
  kLong    // for copying large amounts of data
};

// Sets the turns of the calling thread and of the threads and processes that the calling thread
// starts from now on. A child process therefore calls SetTurns(kUsual), which restores the turns
// with which this process was started. May be called between fork and exec if SetTurns was called
// before the fork.
void SetTurns(Turns turns);

}  // namespace cohort
