#pragma once

// The share of the machine that this process may use: the system's counts of processors and memory,
// reduced to the limits of the process's control groups.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cohort {

// The limits that Linux control groups set for this process: the limits of its own group and of
// every visible group above that group, in version 1 and in version 2 of control groups. A
// container's limits are set in this way, and the system's own counts of memory and processors do
// not reflect them.
struct CgroupLimits {
  std::optional<uint64_t> memory_bytes;
  // The CPU quota divided by its period: 1.5 means one and a half processors.
  std::optional<double> processors;
};

// Reads the proc and cgroup file systems below the directory `root`, which is "" except in tests. A
// limit whose file cannot be read is treated as absent.
CgroupLimits ReadCgroupLimits(const std::string& root);

// Returns the number of processors that this process may keep busy, at least 1. A fractional quota
// is rounded up. `root` is the directory of ReadCgroupLimits.
int ProcessorCountBelow(const std::string& root);
inline int ProcessorCount() { return ProcessorCountBelow(""); }

// Returns the number of bytes of memory that this process may use, or the largest size_t if the
// system reports no number.
size_t PhysicalMemory();

// Returns the host's name, or "unknown" if the system reports none.
std::string HostName();

}  // namespace cohort
