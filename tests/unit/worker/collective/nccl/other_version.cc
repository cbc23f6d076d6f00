#include "tests/support/gpus.h"
#include "worker/collective/nccl/nccl_table.h"

extern "C" __attribute__((visibility("default"))) const cohort::NcclTable* cohort_nccl_table() {
  return cohort::TableOfAnotherVersion<cohort::NcclTable>();
}
