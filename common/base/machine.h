#pragma once

// The share of the machine that this process may use: the system's counts, cut down to the limits
// of the process's control groups (cgroup.h).

#include <cstddef>

namespace cohort {

// Returns how many processors this process may keep busy, at least 1. A quota that ends in the
// middle of one counts that one too.
int ProcessorCount();

// Returns how many bytes of memory this process may have, or the largest number there is if the
// system does not say.
size_t PhysicalMemory();

}  // namespace cohort
