#pragma once

#include "common/runtime/kernels/cuda/products_launches.h"

namespace cohort {

GemmLibrary MakeGemmLibrary();

}  // namespace cohort
