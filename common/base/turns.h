#pragma once

// The length of a thread's turns on a processor, its time slices, for the case that more threads
// than processors want to run.
//
// Linux decides when a thread wakes up, and a few hundred times a second besides, whether to take a
// processor away from a running thread. A waking thread gets the processor at once if its time
// slices are shorter than those of the running thread and if it has used less than its share of
// processor time. Otherwise the waking thread may wait some milliseconds for a processor, which is
// many times the duration of a small call.
//
// A thread with short time slices therefore also gets a far greater share than other threads, if
// the process has the permission (root, CAP_SYS_NICE or RLIMIT_NICE). Such a thread works little,
// so its greater share takes almost no time from other threads.
//
// Linux 6.12 and later can set the length of time slices; on older kernels only the shares change.
// Threads that were given another scheduling policy from outside are left unchanged.

namespace cohort {

enum class Turns {
  kShort,  // short time slices, for threads that wait much and work little at a time
  kUsual,  // the system's default, for threads that compute
  kLong    // long time slices, for threads that copy large amounts of data
};

// Sets the length of the time slices of the calling thread, and of the threads and processes that
// it starts from now on. A child process therefore calls SetTurns(kUsual), which restores the time
// slices and the niceness with which this process was started. May be called between fork and exec
// if SetTurns was called before the fork.
void SetTurns(Turns turns);

}  // namespace cohort
