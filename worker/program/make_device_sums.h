#pragma once

// Makes the sums on GPUs that a program asks for (proto Replicas.cross_device_ops). Decides which
// programs sum on GPUs, and by which algorithm.

#include <memory>

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"
#include "worker/devices/replica_runners.h"
#include "worker/replicas/device_sums.h"

namespace cohort {

// The largest number of packs into which a program may divide its gradients.
inline constexpr int32_t kPacksMax = 4096;

// Returns true if replicas leave their values on their GPUs, to be summed there: every replica has
// a GPU, and no other workers take part. With other workers, sums travel while the rest is computed
// (early_sums.h).
bool SumsOnDevices(const proto::Program& program);

// Makes the sums, or returns null if SumsOnDevices() is false. Errors: INVALID_ARGUMENT for an
// algorithm that is unknown or that the devices do not allow, and for too many packs;
// FAILED_PRECONDITION saying why NCCL is missing if the program asks for NCCL.
absl::StatusOr<std::unique_ptr<DeviceSums>> MakeDeviceSums(const proto::Program& program,
                                                           const ReplicaParts& parts);

}  // namespace cohort
