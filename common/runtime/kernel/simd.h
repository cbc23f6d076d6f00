#pragma once

// Macros for loops that the compiler vectorises.
// COHORT_SIMD before a function compiles the function for AVX-512, AVX2 and baseline x86-64. The
// loader picks a version by CPU, so one executable uses what each machine has. The macro is empty
// under sanitizers, whose runtime has not started yet when the loader picks.
// COHORT_IVDEP before a loop says that iterations touch disjoint elements even if two pointers are
// equal, so the compiler also vectorises the loop for in-place use.
// COHORT_INLINE makes a helper part of each compiled version of its caller. COHORT_BODY does the
// same, and under nvcc it makes the helper a device function instead.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(COHORT_SANITIZED)
#define COHORT_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COHORT_SIMD
#endif

#if defined(__clang__)
#define COHORT_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define COHORT_IVDEP _Pragma("GCC ivdep")
#endif

#define COHORT_INLINE inline __attribute__((always_inline))

#if defined(__CUDACC__)
#define COHORT_BODY inline __device__
#else
#define COHORT_BODY COHORT_INLINE
#endif
