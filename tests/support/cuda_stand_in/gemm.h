#pragma once

// In the place of cuBLAS, where there is no device: plain loops that add up in double.

#include "common/runtime/cuda/launches/products_launches.h"

namespace cohort {

GemmLibrary MakeStandInGemm();

}  // namespace cohort
