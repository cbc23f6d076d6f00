#pragma once

// The limits that control groups set to this process: those of its own group and of every group
// above it, as far as they can be seen, in both versions of control groups. A container's limits
// are of this kind, and the system's own counts of memory and processors do not know them.

#include <cstdint>
#include <optional>
#include <string>

namespace cohort {

struct CgroupLimits {
  std::optional<uint64_t> memory_bytes;
  std::optional<double> processors;  // quota per period: 1.5 is three halves of one processor
};

// Reads proc and cgroup file systems below `root` ("" but in tests). What cannot be read limits
// nothing.
CgroupLimits ReadCgroupLimits(const std::string& root);

}  // namespace cohort
