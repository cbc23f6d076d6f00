#include "common/runtime/cuda/cuda_table.h"
#include "tests/support/gpus.h"

extern "C" __attribute__((visibility("default"))) const cohort::CudaTable* cohort_cuda_table() {
  return cohort::TableOfAnotherVersion<cohort::CudaTable>();
}
