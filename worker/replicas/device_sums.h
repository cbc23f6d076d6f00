#pragma once

// Adds up what the replicas of one worker have left on their GPUs (DeviceTarget.left_there), there,
// and moves the sum, once, to where its variable is. How, TensorFlow's cross_device_ops say:
//
//   reduction_to_one_device  every replica's values are copied to the first one's GPU, and added
//                            there, each tensor by itself
//   hierarchical_copy        of each pair of the tree the lower one's GPU copies the other's packs
//                            and adds them to its own, the pairs of a level at the same time
//   nccl                     NCCL reduces each pack to the first replica's GPU
//
// The first two multiply and add as join_replicas.h does, in the order of its tree: their bits are
// those of the sum in host memory. NCCL has an order of its own.
//
// The runners' streams are their replicas', which may be at the next closure already; so this has a
// stream of its own on each GPU. Whatever was read is kept until all of them were waited for.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/tensor/tensor.h"
#include "worker/collective/nccl/nccl_local_group.h"

namespace cohort {

// A pack of gradients that travels between GPUs. Gradients lie one after the other in one run of
// elements, in the order of outputs, and the run is cut into packs. A gradient may lie in two of
// them; in the run it is whole.
struct GradientPack {
  int64_t begin = 0;  // in elements of the run
  int64_t count = 0;

  friend bool operator==(const GradientPack&, const GradientPack&) = default;
};

// Cuts gradients of so many `elements` into packs whose sizes differ by at most one element; 0
// packs: each gradient by itself. Gradients without elements are left out.
std::vector<GradientPack> CutIntoPacks(const std::vector<int64_t>& elements, int64_t num_packs);

enum class SumWay { kReductionToOneDevice, kHierarchicalCopy, kNccl };

// Returns the default way. Both keep the bits. With two GPUs one copies once either way, and the
// reduction needs neither packs nor waits between levels; with more, the levels of the tree are
// fewer than the copies that would queue for one GPU.
inline SumWay BetterWay(size_t gpus) {
  return gpus > 2 ? SumWay::kHierarchicalCopy : SumWay::kReductionToOneDevice;
}

// The values that replicas computed of one output, by replica. They are the first replicas, at
// least one.
struct DeviceSummands {
  std::vector<Tensor> values;  // float32, each on its replica's GPU, where nothing writes it
  std::vector<float> weights;  // LeafWeight
  // The sum is wanted on the first GPU, by a home of variables there: it is in unified memory.
  bool stays = false;
};

// Thread-safe: one sum at a time.
class DeviceSums {
 public:
  struct Options {
    const CudaTable& cuda;            // outlives this, as `nccl` does
    const NcclTable* nccl = nullptr;  // for kNccl alone
    std::vector<int32_t> gpus = {};   // one per replica; for kNccl each once
    SumWay way = SumWay::kReductionToOneDevice;
    int64_t num_packs = 0;  // CutIntoPacks; of all but kReductionToOneDevice
    AllocateBuffer allocate_outputs = Buffer::Allocate;
  };
  explicit DeviceSums(Options options);
  ~DeviceSums();

  // Returns the sums, by output, in host memory or in the first GPU's, from buffers that are used
  // again. With one replica alone they are its values. All outputs are of the same replicas.
  // Errors: INVALID_ARGUMENT for shapes that differ; those of CudaStream and NcclLocalGroup, after
  // which the next sum may go well again.
  absl::StatusOr<std::vector<Tensor>> Sum(absl::Span<const DeviceSummands> outputs);

 private:
  absl::Status OpenStreams(size_t replicas) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds up on the first GPU. `runs` gets memory that streams of several GPUs may use: it lives
  // until WaitForAll.
  absl::StatusOr<std::vector<Tensor>> AddUp(absl::Span<const DeviceSummands> outputs,
                                            std::vector<Tensor>& runs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddInPairs(const std::vector<GradientPack>& packs, size_t step, std::vector<Tensor>& runs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddByNccl(const std::vector<GradientPack>& packs, std::vector<Tensor>& runs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Tensor> Move(absl::Span<const Tensor> sums, absl::Span<const DeviceSummands> outputs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::shared_ptr<OutputPool> pool_;  // shared: buffers that are out refer to it
  Mutex mutex_;
  // One per replica; those on one GPU share its stream.
  std::vector<std::shared_ptr<CudaStream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<NcclLocalGroup> nccl_ ABSL_GUARDED_BY(mutex_);  // for kNccl, once it was needed
};

}  // namespace cohort
