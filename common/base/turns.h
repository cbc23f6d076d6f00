#pragma once

// What a thread gets where more threads than processors want to run. Linux gives each its turn, and
// looks whether to take a processor away when another thread wakes up, and a few hundred times a
// second besides. A thread that wakes up with shorter turns than the running one's gets the
// processor at once; otherwise it may wait some ms for it, which is many times what a small call
// takes. Over time every thread gets the same share of the processors, whatever its turns.
//
// Of Linux 6.12 and later. On others nothing changes, and neither does it for threads that were
// given another scheduling policy from outside.

namespace cohort {

enum class Turns {
  kShort,  // for much waiting and little work at a time
  kUsual,  // the system's: for computing
  kLong    // for copying what is large
};

// Of the calling thread, and of those that it starts from now on.
void SetTurns(Turns turns);

}  // namespace cohort
