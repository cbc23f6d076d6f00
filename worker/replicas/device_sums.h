#pragma once

// Adds up the values that the replicas of one worker have left on their GPUs
// (DeviceTarget.left_there). The sum is made on a GPU and copied once, to host memory or to the
// place of its variable. TensorFlow's cross_device_ops name the algorithms:
//
//   reduction_to_one_device  every replica's values are copied to the first replica's GPU and added
//                            there, tensor by tensor
//   hierarchical_copy        of each pair in the tree, the lower replica's GPU copies the other's
//                            packs and adds them to its own; pairs of one level run concurrently
//   nccl                     NCCL reduces each pack to the first replica's GPU
//
// The first two algorithms multiply and add as join_replicas.h does, in the order of its tree, so
// their sums have the same bits as sums in host memory. NCCL has its own order.
//
// The streams on which replicas compute may already run the next closure. So DeviceSums has a
// stream of its own on each GPU. It keeps all memory that its streams read until the streams have
// finished.

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

// A pack: the elements that one copy moves between GPUs. The gradients of a replica lie one after
// the other in one long tensor, in the order of the program's outputs, and this tensor is cut into
// packs. A gradient may lie in two packs.
struct GradientPack {
  int64_t begin = 0;  // first element of the pack in the long tensor
  int64_t count = 0;

  friend bool operator==(const GradientPack&, const GradientPack&) = default;
};

// Cuts the long tensor of gradients with `elements` elements each into `num_packs` packs, whose
// sizes differ by at most one element. With `num_packs` 0, each gradient is a pack. Empty packs are
// left out.
std::vector<GradientPack> CutIntoPacks(const std::vector<int64_t>& elements, int64_t num_packs);

enum class SumWay { kReductionToOneDevice, kHierarchicalCopy, kNccl };

// Returns the algorithm for a program that leaves the choice open: hierarchical_copy or
// reduction_to_one_device, which give the same bits. With two GPUs both copy once, and the
// reduction needs neither packs nor waits between levels. With more GPUs the tree wins: it has
// fewer levels than there are copies to one GPU, which would be made one after another.
inline SumWay BetterWay(size_t gpus) {
  return gpus > 2 ? SumWay::kHierarchicalCopy : SumWay::kReductionToOneDevice;
}

// The values that replicas have computed for one output, in the order of the replicas. If the batch
// has too few examples, only the first replicas have a value; at least one has.
struct DeviceSummands {
  // The replicas' values: float32, each on its replica's GPU. Other code only reads them.
  std::vector<Tensor> values;
  std::vector<float> weights;  // factor of each replica's value in the sum, from LeafWeight()
  // True if the sum's variable has its home on the first GPU. The sum is then left in unified
  // memory, which the home reads.
  bool stays = false;
};

// The sums of one program's outputs over the replicas of this worker. Makes one sum at a time.
// Thread-safe.
class DeviceSums {
 public:
  struct Options {
    const CudaTable& cuda;  // the functions of CUDA, which outlive this object
    // The functions of NCCL, for kNccl only, which outlive this object.
    const NcclTable* nccl = nullptr;
    std::vector<int32_t> gpus = {};  // number of each replica's GPU; for kNccl, no GPU twice
    SumWay way = SumWay::kReductionToOneDevice;
    // Number of packs, see CutIntoPacks(); not used by kReductionToOneDevice.
    int64_t num_packs = 0;
    AllocateBuffer allocate_outputs = Buffer::Allocate;
  };
  explicit DeviceSums(Options options);
  ~DeviceSums();

  // Returns the sum over the replicas for each output: in host memory or, if it stays, in unified
  // memory of the first GPU. The host memory comes from a pool. If only one replica has values, its
  // values are the sums. All `outputs` have values of the same replicas. Errors: INVALID_ARGUMENT
  // for values of one output whose shapes differ; those of CudaStream and NcclLocalGroup. After an
  // error, the next sum may succeed.
  absl::StatusOr<std::vector<Tensor>> Sum(absl::Span<const DeviceSummands> outputs);

 private:
  absl::Status OpenStreams(size_t replicas) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds up all outputs on the first GPU. `runs` receives the tensors that streams of several GPUs
  // read; the caller keeps them until WaitForAll() has returned.
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
  // Lends host memory for the sums; shared with the buffers that it has lent.
  const std::shared_ptr<OutputPool> pool_;
  Mutex mutex_;
  // The stream for each replica's GPU; replicas on one GPU share a stream.
  std::vector<std::shared_ptr<CudaStream>> streams_ ABSL_GUARDED_BY(mutex_);
  // The NCCL group of all GPUs, for kNccl only. Opened by the first sum.
  std::unique_ptr<NcclLocalGroup> nccl_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
