#pragma once

// The share of the machine that this process may use: the system's counts of processors and memory,
// reduced to the limits of the process's control groups (cgroup.h).

#include <cstddef>

namespace cohort {

// Returns the number of processors that this process may keep busy, at least 1. A fractional quota
// is rounded up.
int ProcessorCount();

// Returns the number of bytes of memory that this process may use, or the largest size_t if the
// system reports no number.
size_t PhysicalMemory();

}  // namespace cohort
