#pragma once

// The program's view of CUDA: a table of functions without any of CUDA's types. The module
// libcohort_cuda.so (backend/) fills the table with nvcc's code, cuBLAS and cuDNN; tests fill it
// with the same kernels compiled for the processor (tests/support/cuda_stand_in). Both sides
// compile this header, so a change of it raises the version.
//
// A context is a stream of one device, with the handles of its libraries. Posted work runs on the
// device in the order in which it was posted. One thread at a time uses a context; only `free` may
// be called by any thread.
//
// Codes: kCudaDone, or an error that error_words explains.

#include <cstdint>

#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

inline constexpr uint32_t kCudaTableVersion = 3;
// The name of the one function that the module exports: const CudaTable* f().
inline constexpr char kCudaTableSymbol[] = "cohort_cuda_table";

struct CudaTable {
  uint32_t version = kCudaTableVersion;
  void* self = nullptr;  // first argument of the functions that take no context

  // Writes the words of `code` into `words`, with a zero at the end.
  void (*error_words)(void* self, int32_t code, char* words, uint64_t bytes);
  int32_t (*device_count)(void* self, int32_t* count);

  // Fails for a device that cannot run the module's kernels.
  int32_t (*open)(void* self, int32_t device, CudaContext** context);
  // Closes a context on which nothing runs and whose memory has been freed.
  void (*close)(CudaContext* context);

  // Allocates memory aligned to 256 bytes. Freed memory may still be used by work that was posted
  // before.
  int32_t (*allocate)(CudaContext* context, uint64_t bytes, void** memory);
  // Allocates memory whose home is the device, and that the processor may touch as its own while no
  // posted work writes it. Fails if it does not fit into the device's free memory, and on a device
  // that does not let both touch such memory. Waits for posted work.
  int32_t (*allocate_unified)(CudaContext* context, uint64_t bytes, void** memory);
  // Tells whether kernels of this context may use the memory where it lies: memory of this device,
  // and unified memory whose home is the device; not memory of another device or of the host.
  int32_t (*reaches)(CudaContext* context, const void* memory, bool* yes);
  // Frees memory of either kind.
  void (*free)(CudaContext* context, void* memory);
  // Tells how much memory of the device is free, and how much the device has.
  int32_t (*memory_left)(CudaContext* context, uint64_t* free, uint64_t* all);

  // Copy memory. Host memory stays as it is, and is not read, until `wait` has returned. Either
  // pointer may point into unified memory, and the device memory may belong to another device.
  int32_t (*copy_to_device)(CudaContext* context, void* device, const void* host, uint64_t bytes);
  int32_t (*copy_to_host)(CudaContext* context, void* host, const void* device, uint64_t bytes);
  int32_t (*copy_on_device)(CudaContext* context, void* to, const void* from, uint64_t bytes);
  int32_t (*fill_zeros)(CudaContext* context, void* device, uint64_t bytes);
  // Blocks until nothing runs; tells what went wrong in what was posted.
  int32_t (*wait)(CudaContext* context);

  CudaLaunches launches;
};

}  // namespace cohort
