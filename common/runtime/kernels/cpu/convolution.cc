#include <algorithm>
#include <bit>
#include <vector>

#include "common/base/mutex.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/runtime/kernels/cpu/conv_primitive.h"
#include "common/runtime/kernels/cpu/fast_kernel.h"

// Sets the calling thread's number of OpenMP threads. The function is declared here, because clang
// has no omp.h without its own OpenMP.
extern "C" void omp_set_num_threads(int threads);

namespace cohort {

namespace {

// The largest number of primitives that are kept for one node. A node sees few shapes: those of a
// full batch and of a last batch, in training and in evaluation.
constexpr size_t kPrimitivesMax = 8;

// The shapes of a node's inputs. The node needs one primitive for each combination of shapes.
using Shapes = std::vector<Shape>;

// The compiled oneDNN primitives of one node, found by the shapes of the inputs. Making a primitive
// generates code, which takes milliseconds. Thread-safe.
class ConvPrimitives {
 public:
  // A primitive, shared with the runs that use it.
  using Entry = std::shared_ptr<const ConvPrimitive>;

  template <typename Make>
  Entry FindOr(const Shapes& shapes, Make&& make) {
    {
      MutexLock lock(mutex_);
      if (const Item* found = FindLocked(shapes)) return found->entry;
    }
    // The primitive is made outside the lock, because making one takes milliseconds. Another thread
    // may add the same primitive meanwhile.
    const Entry made = make();
    MutexLock lock(mutex_);
    if (const Item* found = FindLocked(shapes)) return found->entry;
    // The number of primitives is limited: if a node's shapes change all the time, the primitives
    // would fill the memory.
    if (items_.size() >= kPrimitivesMax) items_.clear();
    items_.push_back({shapes, made});
    return made;
  }

 private:
  struct Item {
    Shapes shapes;
    Entry entry;
  };
  // Returns the item whose shapes equal `shapes`, or null. The search compares all items in turn,
  // since there are few.
  const Item* FindLocked(const Shapes& shapes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const Item& item : items_) {
      if (item.shapes == shapes) return &item;
    }
    return nullptr;
  }

  mutable Mutex mutex_;
  std::vector<Item> items_ ABSL_GUARDED_BY(mutex_);
};

// Returns `bytes` rounded up by at most a quarter, so that similar sizes share buffers of the pool.
size_t PooledBytes(size_t bytes) {
  const size_t unit = std::bit_floor(std::max<size_t>(bytes, 256)) / 4;
  return (bytes + unit - 1) / unit * unit;
}

struct ConvSetup {
  ConvKind kind = ConvKind::kForward;
  int threads = 1;
  // The pool of workspaces that all kernels of a registry share.
  std::shared_ptr<OutputPool> workspaces;
};

// The kernel of a convolution or of a gradient of one, computed by oneDNN. Thread-safe: all members
// are constant except the primitives, which have a lock of their own.
class ConvKernel : public Kernel {
 public:
  ConvKernel(const ConvParameters& parameters, const ConvSetup& setup,
             std::unique_ptr<Kernel> reference)
      : parameters_(parameters), setup_(setup), reference_(std::move(reference)) {}

  absl::Status Run(KernelContext& context) const override {
    const Tensor first = context.input(0);
    const Tensor second = context.input(1);
    const Tensor third = context.input(2);
    const absl::StatusOr<ConvShape> shape = Resolve(first, second, third);
    if (!shape.ok() || !IsFast(*shape, first, second, third)) return reference_->Run(context);
    // The number of OpenMP threads is a setting of each thread, and a strand moves between threads,
    // so every run sets the number.
    omp_set_num_threads(setup_.threads);
    const bool has_bias = setup_.kind == ConvKind::kForward && third.has_value();
    const auto primitive = primitives_.FindOr(KeyOf(first, second, third), [&] {
      return ConvPrimitives::Entry(ConvPrimitive::Make(setup_.kind, *shape, has_bias));
    });
    // If oneDNN cannot compute this convolution, the reference kernel computes it.
    if (primitive == nullptr) return reference_->Run(context);
    const Shape result = setup_.kind == ConvKind::kForward ? shape->y : third.shape();
    ConvOperands operands;
    operands.first = first.data<float>();
    operands.second = second.data<float>();
    operands.bias = has_bias ? third.data<float>() : nullptr;
    operands.result = context.Output(0, DType::kFloat32, result).mutable_data<float>();
    const auto workspace = setup_.workspaces->Take(PooledBytes(primitive->workspace_bytes()));
    return primitive->Run(operands, workspace->data());
  }

 private:
  absl::StatusOr<ConvShape> Resolve(const Tensor& first, const Tensor& second,
                                    const Tensor& third) const {
    switch (setup_.kind) {
      case ConvKind::kForward:
        return ResolveConv(first.shape(), second.shape(), parameters_);
      case ConvKind::kInputGrad:
        return ResolveConvGrad(first, third.shape(), second.shape(), parameters_);
      case ConvKind::kWeightGrad:
        return ResolveConvGrad(first, second.shape(), third.shape(), parameters_);
    }
    return absl::InternalError("no such convolution");
  }

  // Returns whether oneDNN can compute the convolution: float32, two axes, no empty operand.
  bool IsFast(const ConvShape& shape, const Tensor& first, const Tensor& second,
              const Tensor& third) const {
    const bool has_bias = setup_.kind == ConvKind::kForward && third.has_value();
    const bool bias_fits =
        !has_bias || (IsFloat32(third) && third.shape() == Shape{second.shape().dim(0)});
    return IsFloat32(first) && IsFloat32(second) && bias_fits && shape.window.axes.size() == 2 &&
           first.num_elements() > 0 && second.num_elements() > 0 && shape.y.num_elements() > 0;
  }

  static Shapes KeyOf(const Tensor& first, const Tensor& second, const Tensor& third) {
    return {first.shape(), second.shape(), third.shape()};
  }

  const ConvParameters parameters_;
  const ConvSetup setup_;
  const std::unique_ptr<Kernel> reference_;
  mutable ConvPrimitives primitives_;
};

}  // namespace

void RegisterCpuConvolution(const CpuRegistration& registration, int threads) {
  const auto workspaces = std::make_shared<OutputPool>();
  const auto add = [&](const std::string& domain, const std::string& op, ConvKind kind) {
    const KernelDefinition slow = registration.Reference(domain, op);
    const ConvSetup setup = {kind, threads, workspaces};
    const auto make = [setup, make_slow = slow.make](
                          const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> reference, make_slow(node));
      AttributeReader reader(node);
      return std::make_unique<ConvKernel>(ParseConv(reader), setup, std::move(reference));
    };
    registration.registry.Add(domain, op, {slow.signature, make});
  };
  add("", "Conv", ConvKind::kForward);
  add("cohort", "ConvInputGrad", ConvKind::kInputGrad);
  add("cohort", "ConvWeightGrad", ConvKind::kWeightGrad);
}

}  // namespace cohort
