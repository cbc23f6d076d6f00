#include <vector>

#include "common/base/mutex.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/runtime/kernels/conv_transpose_shape.h"
#include "common/runtime/kernels/cpu/conv_primitive.h"
#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/gemm.h"

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

// One run of a node as a convolution of oneDNN or a gradient of one.
struct ConvCall {
  ConvShape shape;
  Shape result;
  Tensor first;
  Tensor second;
  Tensor bias;  // one number for each channel of the result; may lack a value
};
// Says what a node computes for its inputs. Errors: those of the shapes.
template <typename Parameters>
using Resolve = absl::StatusOr<ConvCall> (*)(const KernelContext& context,
                                             const Parameters& parameters);

absl::StatusOr<ConvCall> ResolveForward(const KernelContext& context,
                                        const ConvParameters& parameters) {
  ConvCall call = {{}, {}, context.input(0), context.input(1), InputOr(context, 2)};
  ASSIGN_OR_RETURN(call.shape, ResolveConv(call.first.shape(), call.second.shape(), parameters));
  RETURN_IF_ERROR(CheckConvBias(call.second, call.bias));
  call.result = call.shape.y;
  return call;
}

absl::StatusOr<ConvCall> ResolveInputGrad(const KernelContext& context,
                                          const ConvParameters& parameters) {
  ConvCall call = {{}, context.input(2).shape(), context.input(0), context.input(1), {}};
  ASSIGN_OR_RETURN(call.shape,
                   ResolveConvGrad(call.first, call.result, call.second.shape(), parameters));
  return call;
}

absl::StatusOr<ConvCall> ResolveWeightGrad(const KernelContext& context,
                                           const ConvParameters& parameters) {
  ConvCall call = {{}, context.input(2).shape(), context.input(0), context.input(1), {}};
  ASSIGN_OR_RETURN(call.shape,
                   ResolveConvGrad(call.first, call.second.shape(), call.result, parameters));
  return call;
}

// Says what ConvTranspose computes: the gradient of the image of a convolution.
absl::StatusOr<ConvCall> ResolveTransposed(const KernelContext& context,
                                           const ConvTransposeParameters& parameters) {
  ConvCall call = {{}, {}, context.input(0), context.input(1), InputOr(context, 2)};
  ASSIGN_OR_RETURN(ConvTransposeShape shape,
                   ResolveConvTranspose(call.first.shape(), call.second.shape(), parameters));
  RETURN_IF_ERROR(CheckConvTransposeBias(call.second, call.bias, shape));
  call.shape = std::move(shape.conv);
  call.result = std::move(shape.y);
  return call;
}

// Says what the gradient of ConvTranspose's x computes: a convolution of dy.
absl::StatusOr<ConvCall> ResolveTransposedInputGrad(const KernelContext& context,
                                                    const ConvTransposeParameters& parameters) {
  ConvCall call = {{}, context.input(2).shape(), context.input(0), context.input(1), {}};
  ASSIGN_OR_RETURN(
      ConvTransposeShape shape,
      ResolveConvTransposeGrad(call.first, call.result, call.second.shape(), parameters));
  call.shape = std::move(shape.conv);
  return call;
}

// Says what the gradient of ConvTranspose's w computes: that of the weights of a convolution whose
// image is dy and whose result has the gradient x.
absl::StatusOr<ConvCall> ResolveTransposedWeightGrad(const KernelContext& context,
                                                     const ConvTransposeParameters& parameters) {
  ConvCall call = {{}, context.input(2).shape(), context.input(1), context.input(0), {}};
  ASSIGN_OR_RETURN(
      ConvTransposeShape shape,
      ResolveConvTransposeGrad(call.second, call.first.shape(), call.result, parameters));
  call.shape = std::move(shape.conv);
  return call;
}

// Returns whether oneDNN can compute the convolution: float32, one to three axes, no empty operand.
bool IsFast(const ConvCall& call) {
  const size_t axes = call.shape.window.axes.size();
  return IsFloat32(call.first) && IsFloat32(call.second) && axes >= 1 && axes <= 3 &&
         call.first.num_elements() > 0 && call.second.num_elements() > 0 &&
         call.result.num_elements() > 0;
}

// Adds the bias of each channel of `out`, which has the shape `shape`.
void AddChannels(const Tensor& bias, const Shape& shape, float* out) {
  const AxisView view = ViewAroundAxis(shape, 1);
  for (int64_t plane = 0; plane < view.outer * view.size; ++plane, out += view.inner) {
    const float each = bias.data<float>()[plane % view.size];
    for (int64_t i = 0; i < view.inner; ++i) out[i] += each;
  }
}

struct ConvSetup {
  ConvKind kind = ConvKind::kForward;
  GemmSettings products;
  // The pool of workspaces that all kernels of a registry share.
  std::shared_ptr<OutputPool> workspaces;
};

// The kernel of a convolution or of a gradient of one, computed by oneDNN. Thread-safe: constant
// but for the primitives, which have their own lock.
template <typename Parameters>
class ConvKernel : public Kernel {
 public:
  ConvKernel(Parameters parameters, Resolve<Parameters> resolve, const ConvSetup& setup,
             std::unique_ptr<Kernel> reference)
      : parameters_(std::move(parameters)),
        resolve_(resolve),
        setup_(setup),
        reference_(std::move(reference)) {}

  absl::Status Run(KernelContext& context) const override {
    const absl::StatusOr<ConvCall> call = resolve_(context, parameters_);
    if (!call.ok() || !IsFast(*call)) return reference_->Run(context);
    // The number of OpenMP threads is a setting of each thread, and a strand moves between threads,
    // so every run sets the number.
    omp_set_num_threads(setup_.products.threads);
    // Only oneDNN's forward convolution adds a bias.
    const bool fused = setup_.kind == ConvKind::kForward && call->bias.has_value();
    const Shapes key = {call->first.shape(), call->second.shape(), call->result,
                        call->bias.shape()};
    const auto primitive = primitives_.FindOr(key, [&] {
      ConvForm form = {setup_.kind, setup_.products.precision, fused};
      ConvPrimitives::Entry made = ConvPrimitive::Make(form, call->shape);
      if (made != nullptr || form.precision == ProductPrecision::kFloat32) return made;
      form.precision = ProductPrecision::kFloat32;
      return ConvPrimitives::Entry(ConvPrimitive::Make(form, call->shape));
    });
    // If oneDNN cannot compute this convolution, the reference kernel computes it.
    if (primitive == nullptr) return reference_->Run(context);
    ConvOperands operands;
    operands.first = call->first.template data<float>();
    operands.second = call->second.template data<float>();
    operands.bias = fused ? call->bias.template data<float>() : nullptr;
    operands.result =
        context.Output(0, DType::kFloat32, call->result).template mutable_data<float>();
    const auto workspace = setup_.workspaces->Take(PooledBytes(primitive->workspace_bytes()));
    RETURN_IF_ERROR(primitive->Run(operands, workspace->data()));
    if (call->bias.has_value() && !fused) AddChannels(call->bias, call->result, operands.result);
    return absl::OkStatus();
  }

 private:
  const Parameters parameters_;
  const Resolve<Parameters> resolve_;
  const ConvSetup setup_;
  const std::unique_ptr<Kernel> reference_;
  mutable ConvPrimitives primitives_;
};

}  // namespace

void RegisterCpuConvolution(const CpuRegistration& registration, int threads) {
  const auto workspaces = std::make_shared<OutputPool>();
  const auto add = [&]<typename Parameters>(const std::string& domain, const std::string& op,
                                            ConvKind kind, Parameters (*parse)(AttributeReader&),
                                            Resolve<Parameters> resolve) {
    const KernelDefinition slow = registration.Reference(domain, op);
    const auto make = [kind, threads, workspaces, parse, resolve, make_slow = slow.make](
                          const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> reference, make_slow(node));
      AttributeReader reader(node);
      const ConvSetup setup = {kind, {threads, PrecisionHere(node)}, workspaces};
      return std::make_unique<ConvKernel<Parameters>>(parse(reader), resolve, setup,
                                                      std::move(reference));
    };
    registration.registry.Add(domain, op, {slow.signature, make});
  };
  add("", "Conv", ConvKind::kForward, ParseConv, ResolveForward);
  add("cohort", "ConvInputGrad", ConvKind::kInputGrad, ParseConv, ResolveInputGrad);
  add("cohort", "ConvWeightGrad", ConvKind::kWeightGrad, ParseConv, ResolveWeightGrad);
  add("", "ConvTranspose", ConvKind::kInputGrad, ParseConvTranspose, ResolveTransposed);
  add("cohort", "ConvTransposeInputGrad", ConvKind::kForward, ParseConvTranspose,
      ResolveTransposedInputGrad);
  add("cohort", "ConvTransposeWeightGrad", ConvKind::kWeightGrad, ParseConvTranspose,
      ResolveTransposedWeightGrad);
}

}  // namespace cohort
