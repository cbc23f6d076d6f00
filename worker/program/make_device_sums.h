#pragma once

// The sums on GPUs that a program asks for (proto Replicas.cross_device_ops): which replicas have
// any, and how they are taken.

#include <memory>

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"
#include "worker/devices/replica_runners.h"
#include "worker/replicas/device_sums.h"

namespace cohort {

inline constexpr int32_t kPacksMax = 4096;

// Returns whether replicas leave what they sum on their GPUs: all have one, and none meets other
// workers', to which sums travel while the rest is computed (early_sums.h).
bool SumsOnDevices(const proto::Program& program);

// Returns null if they do not. Errors: INVALID_ARGUMENT for a way that is unknown or that the
// devices do not allow, and for too many packs; FAILED_PRECONDITION if NCCL is asked for and
// missing, saying why.
absl::StatusOr<std::unique_ptr<DeviceSums>> MakeDeviceSums(const proto::Program& program,
                                                           const ReplicaParts& parts);

}  // namespace cohort
