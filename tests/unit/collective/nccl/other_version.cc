// A module of another build, for the test that it is refused.

#include "worker/collective/nccl/nccl_table.h"

extern "C" __attribute__((visibility("default"))) const cohort::NcclTable* cohort_nccl_table() {
  static const cohort::NcclTable table = [] {
    cohort::NcclTable other;
    other.version = cohort::kNcclTableVersion + 1;
    return other;
  }();
  return &table;
}
