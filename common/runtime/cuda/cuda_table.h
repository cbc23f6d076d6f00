#pragma once

// The view that Cohort's executables have of CUDA: a table of functions whose signatures have no
// types of CUDA. The module libcohort_cuda.so (backend/) fills the table with code compiled by
// nvcc, cuBLAS and cuDNN. Tests fill the table with the same kernels compiled for the processor
// (tests/support/cuda_stand_in). The program and the module both compile this header, so every
// change of it raises kCudaTableVersion.
//
// A context is a stream of one device, with the handles of the libraries for that stream. Posted
// work runs on the device in the order in which it was posted. Only one thread at a time may use a
// context, except that any thread may call `free`.
//
// Functions return a code: kCudaDone, or an error that error_words explains.

#include <cstdint>

#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

inline constexpr uint32_t kCudaTableVersion = 3;
// The name of the only function that the module exports: const CudaTable* f().
inline constexpr char kCudaTableSymbol[] = "cohort_cuda_table";

struct CudaTable {
  uint32_t version = kCudaTableVersion;
  void* self = nullptr;  // the first argument of functions that take no context

  // Writes an explanation of `code` into `words`, with a zero at the end.
  void (*error_words)(void* self, int32_t code, char* words, uint64_t bytes);
  int32_t (*device_count)(void* self, int32_t* count);

  // Opens a context. Fails for a device that cannot run the module's kernels.
  int32_t (*open)(void* self, int32_t device, CudaContext** context);
  // Closes a context. Nothing may run on the context, and all its memory must have been freed.
  void (*close)(CudaContext* context);

  // Allocates device memory aligned to 256 bytes. The memory may have been freed earlier, and work
  // that was posted before it was freed may still use it.
  int32_t (*allocate)(CudaContext* context, uint64_t bytes, void** memory);
  // Allocates unified memory that resides on the device. The processor may use it like its own
  // memory while no posted work writes it. Fails if the bytes do not fit into the device's free
  // memory, or if the processor may not touch unified memory while the device runs. Waits for
  // posted work.
  int32_t (*allocate_unified)(CudaContext* context, uint64_t bytes, void** memory);
  // Tells whether kernels of this context may use the memory in place. The result is true for
  // memory of this device and for unified memory that resides on this device, and false for memory
  // of another device or of the host.
  int32_t (*reaches)(CudaContext* context, const void* memory, bool* yes);
  // Frees memory that `allocate` or `allocate_unified` gave out.
  void (*free)(CudaContext* context, void* memory);
  // Tells how much of the device's memory is free, and how much memory the device has.
  int32_t (*memory_left)(CudaContext* context, uint64_t* free, uint64_t* all);

  // The next four functions copy or fill memory. Until `wait` has returned, host memory that a copy
  // reads must not change, and host memory that a copy writes must not be read. Each pointer may
  // point into unified memory, and the device memory may belong to another device.
  int32_t (*copy_to_device)(CudaContext* context, void* device, const void* host, uint64_t bytes);
  int32_t (*copy_to_host)(CudaContext* context, void* host, const void* device, uint64_t bytes);
  int32_t (*copy_on_device)(CudaContext* context, void* to, const void* from, uint64_t bytes);
  int32_t (*fill_zeros)(CudaContext* context, void* device, uint64_t bytes);
  // Blocks until all posted work of the context has ended, and returns the error code of that work.
  int32_t (*wait)(CudaContext* context);

  CudaLaunches launches;
};

}  // namespace cohort
