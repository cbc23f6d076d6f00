#pragma once

// COHORT_SIMD before a function compiles it for AVX-512, AVX2 and baseline x86-64; the loader picks
// by CPU, so one binary uses what the machine has. It is empty under sanitizers, whose runtime is
// not up yet when the loader picks. COHORT_IVDEP before a loop says that iterations touch disjoint
// elements even when two pointers are equal, so the loop is vectorised for in-place use too.
// COHORT_INLINE makes a helper part of each compiled version. COHORT_BODY does, too, and where nvcc
// compiles, it is a device's.

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
