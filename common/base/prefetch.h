#pragma once

// Asks for a line of memory that is used soon. Not __builtin_prefetch: GCC 12 takes a function of
// nothing else for one without effect, and drops the calls of it.

namespace cohort {

inline void PrefetchLine(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at);
#endif
}

}  // namespace cohort
