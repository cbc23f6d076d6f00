#pragma once

// What the program knows of CUDA: a table of functions without a type of it. The module
// libcohort_cuda.so (backend/) fills it with nvcc's code, cuBLAS and cuDNN; tests fill it with the
// same kernels compiled for the processor (tests/support/cuda_stand_in). Both sides compile this
// header, so whoever changes it raises the version.
//
// A context is a stream of one device, with the handles of its libraries. What is posted runs on
// the device in the order in which it was posted. One thread at a time uses a context, but for
// `free`, which any thread may call.
//
// Codes: kCudaDone, or an error, of which error_words tells.

#include <cstdint>

#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

inline constexpr uint32_t kCudaTableVersion = 3;
// Of the one function that the module exports: const CudaTable* f().
inline constexpr char kCudaTableSymbol[] = "cohort_cuda_table";

struct CudaTable {
  uint32_t version = kCudaTableVersion;
  void* self = nullptr;  // first argument of the functions that take no context

  // Into `words`, with a zero at the end.
  void (*error_words)(void* self, int32_t code, char* words, uint64_t bytes);
  int32_t (*device_count)(void* self, int32_t* count);

  // Fails for a device that cannot run the module's kernels.
  int32_t (*open)(void* self, int32_t device, CudaContext** context);
  // Nothing runs, and its memory has been freed.
  void (*close)(CudaContext* context);

  // Aligned to 256 bytes. Freed memory may still be used by what was posted before.
  int32_t (*allocate)(CudaContext* context, uint64_t bytes, void** memory);
  // Memory whose home is the device, and that the processor may touch as its own while nothing that
  // was posted writes it. Fails where it does not fit into what is free of the device's memory, and
  // on a device that does not let both touch such memory. Waits for what was posted.
  int32_t (*allocate_unified)(CudaContext* context, uint64_t bytes, void** memory);
  // Whether kernels of this context may use the memory where it lies: memory of this device, and
  // unified memory whose home it is. Not so of another device's, nor of the host's.
  int32_t (*reaches)(CudaContext* context, const void* memory, bool* yes);
  // Of either.
  void (*free)(CudaContext* context, void* memory);
  // How much of the device's memory is free, and has.
  int32_t (*memory_left)(CudaContext* context, uint64_t* free, uint64_t* all);

  // Host memory stays as it is, and is not read, until `wait` has returned. Either pointer
  // may be of unified memory, and what is copied to or on a device may lie on another.
  int32_t (*copy_to_device)(CudaContext* context, void* device, const void* host, uint64_t bytes);
  int32_t (*copy_to_host)(CudaContext* context, void* host, const void* device, uint64_t bytes);
  int32_t (*copy_on_device)(CudaContext* context, void* to, const void* from, uint64_t bytes);
  int32_t (*fill_zeros)(CudaContext* context, void* device, uint64_t bytes);
  // Blocks until nothing runs; tells what went wrong in what was posted.
  int32_t (*wait)(CudaContext* context);

  CudaLaunches launches;
};

}  // namespace cohort
