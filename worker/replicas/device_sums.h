#pragma once

// Adds up the values that the replicas of one worker have left on their GPUs
// (DeviceTarget.left_there). The sum is made on a GPU and moved once, to the place of its variable.
// TensorFlow's cross_device_ops name the algorithms:
//
//   reduction_to_one_device  every replica's values are copied to the first replica's GPU and added
//                            there, tensor by tensor
//   hierarchical_copy        of each pair in the tree, the lower replica's GPU copies the other's
//                            packs and adds them to its own; pairs of one level run concurrently
//   nccl                     NCCL reduces each pack to the first replica's GPU
//
// The first two algorithms multiply and add as join_replicas.h does, in the order of its tree, so
// their bits equal those of the sum in host memory. NCCL has its own order.
//
// The runners' streams belong to the replicas, which may compute the next closure already.
// DeviceSums therefore has its own stream on each GPU. All memory that these streams read is kept
// until the streams have finished.

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

// A pack: the elements that one copy moves between GPUs. All gradients of a replica are stored one
// after the other in one run of elements, in the order of outputs, and the run is cut into packs. A
// gradient may lie in two packs; in the run it is contiguous.
struct GradientPack {
  int64_t begin = 0;  // first element of the pack in the run
  int64_t count = 0;

  friend bool operator==(const GradientPack&, const GradientPack&) = default;
};

// Cuts the run of the gradients, whose sizes are `elements`, into packs. The sizes of packs differ
// by at most one element. With `num_packs` 0, each gradient is its own pack. Gradients without
// elements are left out.
std::vector<GradientPack> CutIntoPacks(const std::vector<int64_t>& elements, int64_t num_packs);

enum class SumWay { kReductionToOneDevice, kHierarchicalCopy, kNccl };

// Returns the default algorithm: hierarchical_copy or reduction_to_one_device, which give the same
// bits. With two GPUs, either algorithm copies once, and the reduction needs neither packs nor
// waits between levels. With more GPUs, the tree has fewer levels than the number of copies that
// would queue for one GPU.
inline SumWay BetterWay(size_t gpus) {
  return gpus > 2 ? SumWay::kHierarchicalCopy : SumWay::kReductionToOneDevice;
}

// The values that replicas have computed for one output, in the order of replicas. If the batch has
// too few examples, only the first replicas have a value; at least one has.
struct DeviceSummands {
  // The replicas' values: float32, each on its replica's GPU. Nothing else writes to them.
  std::vector<Tensor> values;
  std::vector<float> weights;  // weight of each replica's value, from LeafWeight()
  // True if a home of variables on the first GPU takes the sum. The sum is then in unified memory.
  bool stays = false;
};

// The sums of one program on its GPUs. Makes one sum at a time. Thread-safe.
class DeviceSums {
 public:
  struct Options {
    const CudaTable& cuda;            // CUDA's functions; outlive this object
    const NcclTable* nccl = nullptr;  // NCCL's functions, used only for kNccl; outlive this object
    std::vector<int32_t> gpus = {};   // GPU of each replica; for kNccl, each GPU once
    SumWay way = SumWay::kReductionToOneDevice;
    int64_t num_packs = 0;  // number of packs for CutIntoPacks; not used by kReductionToOneDevice
    AllocateBuffer allocate_outputs = Buffer::Allocate;
  };
  explicit DeviceSums(Options options);
  ~DeviceSums();

  // Returns the sum for each output, in host memory or, if it stays, in the first GPU's memory,
  // from buffers that are reused. With one replica, the sums are the values of this replica. All
  // `outputs` come from the same replicas. Errors: INVALID_ARGUMENT for shapes that differ; those
  // of CudaStream and NcclLocalGroup. The next sum may succeed after an error.
  absl::StatusOr<std::vector<Tensor>> Sum(absl::Span<const DeviceSummands> outputs);

 private:
  absl::Status OpenStreams(size_t replicas) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds up all outputs on the first GPU. `runs` receives memory that streams of several GPUs use.
  // The caller keeps this memory until WaitForAll() has returned.
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
  // Pool of the sums' memory, shared with the buffers that are in use.
  const std::shared_ptr<OutputPool> pool_;
  Mutex mutex_;
  // The stream of each replica. Replicas on one GPU share a stream.
  std::vector<std::shared_ptr<CudaStream>> streams_ ABSL_GUARDED_BY(mutex_);
  // The NCCL group of the GPUs for kNccl, opened at the first sum.
  std::unique_ptr<NcclLocalGroup> nccl_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
