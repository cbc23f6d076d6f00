#include "common/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "common/base/cgroup.h"

namespace cohort {

int ProcessorCount() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
  // sched_getaffinity fails on machines with more processors than cpu_set_t has bits; all
  // processors count in that case.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    count = std::min(count, CPU_COUNT(&allowed));
  }
  const CgroupLimits limits = ReadCgroupLimits("");
  if (limits.processors.has_value() && *limits.processors < count) {
    count = static_cast<int>(std::ceil(*limits.processors));
  }
  return std::max(1, count);
}

size_t PhysicalMemory() {
  size_t bytes = std::numeric_limits<size_t>::max();
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_size > 0) {
    bytes = static_cast<size_t>(pages) * static_cast<size_t>(page_size);
  }
  return std::min<size_t>(bytes, ReadCgroupLimits("").memory_bytes.value_or(bytes));
}

}  // namespace cohort
