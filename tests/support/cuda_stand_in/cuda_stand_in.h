#pragma once

// Devices without a GPU: the table of cuda_table.h over the processor. The loops of cuda/backend
// run as they stand in the .cu files, compiled for the processor; in the place of cuBLAS are plain
// loops. What is posted runs late, when it is waited for, so that whoever gives it memory of the
// host that ends before that, or reads a result sooner, is seen. The memory of a device is
// protected while nothing runs, so whoever else touches it dies by SIGSEGV; its unified memory is
// not, and counts as memory of the devices.

#include <cstdint>
#include <functional>

#include "common/runtime/cuda/cuda_table.h"

namespace cohort {

// Of `devices` devices with so much memory together. The table and its memory live to the end of
// the process; make few. Functions may be called on several threads; what one thread must not
// touch is protected only while no other calls.
const CudaTable& MakeCudaStandIn(int32_t devices, uint64_t bytes);

// Does what is no function of the table as the devices do it: what else runs on a GPU, such as
// NCCL, touches its memory too.
void RunOnCudaStandIn(const CudaTable& table, const std::function<void()>& work);

// What the functions of any stand-in do next: after so many calls that post something they fail,
// once. Negative: they do not.
void FailCudaStandInAfter(int64_t calls);

// The same of what was posted, when it runs: it fails with all that was posted after it, and `wait`
// tells.
void FailCudaStandInLateAfter(int64_t calls);

}  // namespace cohort
