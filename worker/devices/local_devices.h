#pragma once

// The devices of this worker's machine.

#include <string>
#include <vector>

#include "worker/devices/replica_runners.h"

namespace cohort {

struct LocalDevices {
  std::vector<std::string> names;  // all GPUs, or "cpu:0"
  std::string no_gpu_reason;       // empty: there are GPUs
};

// May block: CUDA is looked for, and loaded.
LocalDevices ListLocalDevices(const FindCuda& find_cuda);

}  // namespace cohort
