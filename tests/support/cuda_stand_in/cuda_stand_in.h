#pragma once

// Devices without a GPU: the table of cuda_table.h over the processor. The loops of kernels/cuda
// run as they stand in the .cu files, compiled for the processor; in the place of cuBLAS are plain
// loops. The memory of a device is protected while no function of the table runs, so whoever else
// touches it dies by SIGSEGV.

#include <cstdint>

#include "common/runtime/cuda/cuda_table.h"

namespace cohort {

// Of `devices` devices with so much memory together. The table and its memory live to the end of
// the process; make few. Functions may be called on several threads; what one thread must not
// touch is protected only while no other calls.
const CudaTable& MakeCudaStandIn(int32_t devices, uint64_t bytes);

// What the functions of any stand-in do next: after so many calls that post something they fail,
// once. Negative: they do not.
void FailCudaStandInAfter(int64_t calls);

}  // namespace cohort
