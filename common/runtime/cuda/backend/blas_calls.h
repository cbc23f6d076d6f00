#pragma once

#include "common/runtime/cuda/launches/products_launches.h"

namespace cohort {

GemmLibrary MakeGemmLibrary();

}  // namespace cohort
