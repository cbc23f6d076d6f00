#pragma once

// PrefetchLine asks the processor to load a cache line that will be used soon. On x86-64 the
// function uses inline assembly: GCC 12 regards a function that only calls __builtin_prefetch as
// free of effects, and drops the calls of such a function.

#include <cstddef>

namespace cohort {

inline void PrefetchLine(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at);
#endif
}

// Prefetches the cache lines of an array of `count` floats.
inline void PrefetchFloats(const float* values, size_t count) {
  constexpr size_t kFloatsInLine = 16;
  for (size_t i = 0; i < count; i += kFloatsInLine) PrefetchLine(values + i);
}

}  // namespace cohort
