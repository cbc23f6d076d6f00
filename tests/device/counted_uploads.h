#pragma once

// A table that counts what is copied to its devices from elsewhere. Make one at a time.

#include <cstdint>

#include "common/runtime/cuda/cuda_table.h"

namespace cohort {

class CountedUploads {
 public:
  explicit CountedUploads(const CudaTable& table) : table_(table) {
    real_ = table.copy_to_device;
    count_ = 0;
    table_.copy_to_device = Count;
  }
  CountedUploads(const CountedUploads&) = delete;

  // Outlived by this.
  const CudaTable& table() const { return table_; }
  int count() const { return count_; }

 private:
  static int32_t Count(CudaContext* context, void* device, const void* host, uint64_t bytes) {
    ++count_;
    return real_(context, device, host, bytes);
  }

  static inline int32_t (*real_)(CudaContext*, void*, const void*, uint64_t) = nullptr;
  static inline int count_ = 0;
  CudaTable table_;
};

}  // namespace cohort
