#include "worker/replicas/device_sums.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {

namespace {

// Checks that the values that the replicas have computed for each output have one shape. Crashes if
// a value is not float32 on a GPU, or if outputs have values of different replicas.
absl::Status CheckSummands(absl::Span<const DeviceSummands> outputs) {
  for (const DeviceSummands& output : outputs) {
    COHORT_CHECK(output.values.size() == outputs[0].values.size() &&
                     output.weights.size() == output.values.size(),
                 "all outputs come from the same replicas");
    for (const Tensor& value : output.values) {
      COHORT_CHECK(IsOnDevice(value) && value.dtype() == DType::kFloat32,
                   "values that are summed on devices are float32 in device memory");
      RETURN_IF_ERROR(CheckFit(output.values[0], value));
    }
  }
  return absl::OkStatus();
}

void Weigh(CudaStream& stream, const Tensor& value, float weight, Tensor& own) {
  stream.Launch(&CudaLaunches::sums, &SumsLaunches::weigh,
                {value.num_elements(), weight, value.data<float>(), own.mutable_data<float>()});
}

void AddTo(CudaStream& stream, const Tensor& value, Tensor& sum) {
  stream.Launch(&CudaLaunches::sums, &SumsLaunches::add_to,
                {sum.num_elements(), value.data<float>(), sum.mutable_data<float>()});
}

// Adds up the values of replicas [begin, begin + count) for one output. As in the tree of
// join_replicas.h, the first half of the range is the largest power of two below `count`.
Tensor SumOnOne(CudaStream& stream, const DeviceSummands& output, size_t begin, size_t count) {
  if (count == 1) {
    // The first replica's value is cloned, because the sum is written over the clone and a
    // replica's value must not change.
    Tensor own = stream.Clone(output.values[begin]);
    if (output.weights[begin] != 1) Weigh(stream, own, output.weights[begin], own);
    return own;
  }
  const size_t half = std::bit_ceil(count) / 2;
  Tensor sum = SumOnOne(stream, output, begin, half);
  AddTo(stream, SumOnOne(stream, output, begin + half, count - half), sum);
  return sum;
}

std::vector<int64_t> ElementsOf(absl::Span<const DeviceSummands> outputs) {
  std::vector<int64_t> elements;
  for (const DeviceSummands& output : outputs) {
    elements.push_back(output.values[0].num_elements());
  }
  return elements;
}

// Returns the part of `run` (all outputs of a replica, one after the other) that holds one output.
// The part begins at element `begin`. It shares the memory of `run`.
Tensor PartOf(const Tensor& run, const DeviceSummands& output, int64_t begin) {
  const Tensor& value = output.values[0];
  const size_t offset = static_cast<size_t>(begin) * ElementSize(run.dtype());
  return Tensor(value.dtype(), value.shape(), run.buffer(), offset);
}

// Returns the parts of `run`, one for each output; they share the memory of `run`.
std::vector<Tensor> PartsOf(const Tensor& run, absl::Span<const DeviceSummands> outputs) {
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const DeviceSummands& output : outputs) {
    parts.push_back(PartOf(run, output, begin));
    begin += parts.back().num_elements();
  }
  return parts;
}

// Returns one tensor with all values that a replica has computed, multiplied by their weights, one
// output after the other. The tensor of a replica that has computed nothing is zeros.
Tensor RunOf(CudaStream& stream, absl::Span<const DeviceSummands> outputs, size_t replica) {
  int64_t elements = 0;
  for (const int64_t count : ElementsOf(outputs)) elements += count;
  Tensor run = stream.NewTensor(DType::kFloat32, Shape{elements});
  // NCCL needs a tensor from every GPU, so a replica without examples gives zeros.
  if (replica >= outputs[0].values.size()) {
    stream.FillZeros(run);
    return run;
  }
  std::vector<Tensor> parts = PartsOf(run, outputs);
  for (size_t i = 0; i < parts.size(); ++i) {
    Weigh(stream, outputs[i].values[replica], outputs[i].weights[replica], parts[i]);
  }
  return run;
}

}  // namespace

std::vector<GradientPack> CutIntoPacks(const std::vector<int64_t>& elements, int64_t num_packs) {
  std::vector<int64_t> ends;
  const int64_t all = std::accumulate(elements.begin(), elements.end(), int64_t{0});
  for (int64_t i = 1; i <= num_packs; ++i) {
    // Pack i ends at all * i / num_packs. The sum of two terms avoids the product all * i, which
    // could overflow 64 bits.
    ends.push_back(all / num_packs * i + all % num_packs * i / num_packs);
  }
  // With `num_packs` 0, each gradient is a pack of its own.
  if (num_packs == 0) {
    for (const int64_t count : elements) ends.push_back((ends.empty() ? 0 : ends.back()) + count);
  }
  std::vector<GradientPack> packs;
  int64_t begin = 0;
  for (const int64_t end : ends) {
    // An empty pack is left out: packs may outnumber elements, and a gradient may be empty.
    if (end > begin) packs.push_back({begin, end - begin});
    begin = end;
  }
  return packs;
}

DeviceSums::DeviceSums(Options options)
    : options_(std::move(options)),
      pool_(std::make_shared<OutputPool>(options_.allocate_outputs)) {}

DeviceSums::~DeviceSums() = default;

absl::Status DeviceSums::OpenStreams(size_t replicas) {
  const std::vector<int32_t>& gpus = options_.gpus;
  while (streams_.size() < replicas) {
    const auto mine = gpus.begin() + static_cast<ptrdiff_t>(streams_.size());
    const auto same = std::find(gpus.begin(), mine, *mine);
    // Replicas on one GPU share a stream, so additions on one GPU run one after another.
    if (same != mine) {
      streams_.push_back(streams_[static_cast<size_t>(same - gpus.begin())]);
      continue;
    }
    ASSIGN_OR_RETURN(std::shared_ptr<CudaStream> opened, CudaStream::Open(options_.cuda, *mine));
    streams_.push_back(std::move(opened));
  }
  return absl::OkStatus();
}

// Waits for the streams of all GPUs, even if one of them has failed. Afterwards no stream uses the
// memory of the sums.
absl::Status DeviceSums::WaitForAll() {
  absl::Status ended;
  for (const auto& stream : streams_) ended.Update(stream->Wait());
  return ended;
}

// Makes the additions of one level of the tree: adds the values of replica i + `step` to those of
// replica i, for each i that is a multiple of 2 * `step`.
void DeviceSums::AddInPairs(const std::vector<GradientPack>& packs, size_t step,
                            std::vector<Tensor>& runs) {
  for (size_t i = 0; i + step < runs.size(); i += 2 * step) {
    CudaStream& stream = *streams_[i];
    // A pack on another GPU is copied to the stream's GPU before it is added; a pack on the same
    // GPU is read in place.
    const bool near = &stream == streams_[i + step].get();
    for (const GradientPack& pack : packs) {
      const Tensor other = runs[i + step].Rows(pack.begin, pack.count);
      Tensor sum = runs[i].Rows(pack.begin, pack.count);
      AddTo(stream, near ? other : stream.Clone(other), sum);
    }
  }
}

absl::Status DeviceSums::AddByNccl(const std::vector<GradientPack>& packs,
                                   std::vector<Tensor>& runs) {
  if (nccl_ == nullptr) {
    ASSIGN_OR_RETURN(nccl_, NcclLocalGroup::Open(*options_.nccl, options_.gpus));
  }
  for (const GradientPack& pack : packs) {
    std::vector<const float*> values;
    for (const Tensor& run : runs) values.push_back(run.data<float>() + pack.begin);
    const absl::Status added =
        nccl_->Sum(values, pack.count, runs[0].mutable_data<float>() + pack.begin);
    if (added.ok()) continue;
    // After an error, a group of NCCL cannot be used, so the next sum opens a new one.
    nccl_ = nullptr;
    return added;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> DeviceSums::AddUp(absl::Span<const DeviceSummands> outputs,
                                                      std::vector<Tensor>& runs) {
  const size_t replicas = outputs[0].values.size();
  std::vector<Tensor> sums;
  if (replicas == 1) {
    for (const DeviceSummands& output : outputs) sums.push_back(output.values[0]);
    return sums;
  }
  if (options_.way == SumWay::kReductionToOneDevice) {
    for (const DeviceSummands& output : outputs) {
      sums.push_back(SumOnOne(*streams_[0], output, 0, replicas));
    }
    return sums;
  }
  const bool nccl = options_.way == SumWay::kNccl;
  const size_t all = nccl ? options_.gpus.size() : replicas;
  RETURN_IF_ERROR(OpenStreams(all));
  for (size_t i = 0; i < all; ++i) runs.push_back(RunOf(*streams_[i], outputs, i));
  // Every replica's tensor is complete before streams of other GPUs read it.
  RETURN_IF_ERROR(WaitForAll());
  const std::vector<GradientPack> packs = CutIntoPacks(ElementsOf(outputs), options_.num_packs);
  if (nccl) RETURN_IF_ERROR(AddByNccl(packs, runs));
  for (size_t step = 1; !nccl && step < all; step *= 2) {
    AddInPairs(packs, step, runs);
    // The additions of the next level read sums that other GPUs have made at this level.
    RETURN_IF_ERROR(WaitForAll());
  }
  return PartsOf(runs[0], outputs);
}

// Starts to copy each sum to host memory, or to unified memory if it stays on the GPU. The copies
// are complete when the first GPU's stream has finished.
std::vector<Tensor> DeviceSums::Move(absl::Span<const Tensor> sums,
                                     absl::Span<const DeviceSummands> outputs) {
  std::vector<Tensor> moved;
  for (size_t i = 0; i < sums.size(); ++i) {
    const Tensor& sum = sums[i];
    // The home of the variable reads the sum on this GPU, so the sum goes to unified memory.
    if (outputs[i].stays) {
      moved.push_back(streams_[0]->CloneUnified(sum));
      continue;
    }
    auto buffer = pool_->Take(std::max<size_t>(sum.num_bytes(), 1));
    moved.emplace_back(sum.dtype(), sum.shape(), std::move(buffer), 0);
    streams_[0]->CopyToHost(sum, moved.back());
  }
  return moved;
}

absl::StatusOr<std::vector<Tensor>> DeviceSums::Sum(absl::Span<const DeviceSummands> outputs) {
  if (outputs.empty()) return std::vector<Tensor>();
  RETURN_IF_ERROR(CheckSummands(outputs));
  std::vector<Tensor> runs;
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(OpenStreams(1));
  absl::StatusOr<std::vector<Tensor>> sums = AddUp(outputs, runs);
  std::vector<Tensor> moved;
  // WaitForAll() is called even after an error, because streams may still read `runs` and the
  // replicas' values.
  if (sums.ok()) moved = Move(*sums, outputs);
  const absl::Status ended = WaitForAll();
  RETURN_IF_ERROR(sums.status());
  RETURN_IF_ERROR(ended);
  return moved;
}

}  // namespace cohort
