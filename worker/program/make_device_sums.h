#pragma once

// Decides whether the replicas of a program sum their values on their GPUs and by which algorithm
// (proto Replicas.cross_device_ops), and makes the object that sums.

#include <memory>

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"
#include "worker/devices/replica_runners.h"
#include "worker/replicas/device_sums.h"

namespace cohort {

// The largest number of packs into which the gradients of a program may be divided. Each pack moves
// between GPUs by one copy, or is summed by one call of NCCL.
inline constexpr int32_t kPacksMax = 4096;

// Returns true if the program's replicas leave their values on their GPUs, to be summed there:
// every replica has a GPU, and the program does not run on several workers. With several workers,
// the sums travel while other values are computed (early_sums.h).
bool SumsOnDevices(const proto::Program& program);

// Makes the sums, or returns null if SumsOnDevices() is false. Errors: INVALID_ARGUMENT for an
// unknown algorithm, for NCCL with a replica that has no GPU of its own, and for more than
// kPacksMax packs; FAILED_PRECONDITION saying why CUDA, or NCCL if the program asks for it, cannot
// be used.
absl::StatusOr<std::unique_ptr<DeviceSums>> MakeDeviceSums(const proto::Program& program,
                                                           const ReplicaParts& parts);

}  // namespace cohort
