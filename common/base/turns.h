#pragma once

// Turns of threads on processors if more threads than processors want to run. Linux gives each its
// turn, and looks whether to take a processor away when another thread wakes up, and a few hundred
// times a second besides. A thread that wakes up with shorter turns than the running one's gets the
// processor at once, if it has had less than its share so far; otherwise it may wait some ms for
// it, which is many times what a small call takes. A thread with short turns is therefore given a
// far greater share than the others, where the process may do that (root, CAP_SYS_NICE or
// RLIMIT_NICE): it works little, so that it takes next to nothing from them.
//
// Turns are of Linux 6.12 and later; on others only the shares change. Nothing changes for threads
// that were given another scheduling policy from outside.

namespace cohort {

enum class Turns {
  kShort,  // much waiting and little work at a time
  kUsual,  // the system's: for computing
  kLong    // for copying what is large
};

// Sets the turns of the calling thread and of the threads that it starts from now on; also of the
// processes that it starts, so a child begins with kUsual, the turns that the process was started
// with. May be called between fork and exec if it was called before the fork.
void SetTurns(Turns turns);

}  // namespace cohort
