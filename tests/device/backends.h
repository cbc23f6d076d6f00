#pragma once

// The backends that a device test runs on.

#include <string>
#include <vector>

#include "common/runtime/kernel_registry.h"

namespace cohort {

struct Backend {
  std::string name;
  KernelRegistry registry;
};

inline Backend CpuBackend() {
  Backend backend = {"cpu", {}};
  RegisterCpuKernels(backend.registry, 1);
  return backend;
}

inline Backend ReferenceBackend() {
  Backend backend = {"reference", {}};
  RegisterReferenceKernels(backend.registry);
  return backend;
}

}  // namespace cohort
