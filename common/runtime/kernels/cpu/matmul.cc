#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/gemm.h"
#include "common/runtime/kernels/cpu/narrow_products.h"
#include "common/runtime/kernels/cpu/span_loops.h"
#include "common/runtime/kernels/matmul_shape.h"
#include "common/runtime/run/fusion.h"

namespace cohort {

namespace {

// The smallest size (in elements) of the large matrix at which narrow_products.h computes a product
// with few columns. For smaller matrices oneDNN is faster, because it starts at once.
constexpr int64_t kNarrowElementsMin = 1024;

struct Product {
  const float* a;
  const float* b;
  float* c;
  float alpha;
  float beta;
};

// Computes c = alpha op(a) op(b) + beta c, with beta 0 or 1.
void Multiply(const Product& product, const MatMulShape& shape, const MatMulFlags& flags,
              const GemmSettings& settings) {
  const bool plain = product.alpha == 1 && product.beta == 0 && !flags.transpose_b;
  if (plain && shape.n > 0 && shape.n <= kNarrowMax && shape.m * shape.k >= kNarrowElementsMin) {
    const NarrowProduct narrow = {product.a, product.b, product.c, shape.m, shape.k, shape.n};
    return flags.transpose_a ? NarrowLoopOfTransposed(narrow) : NarrowLoop(narrow);
  }
  Gemm({shape.m, shape.n, shape.k},
       {product.a, flags.transpose_a ? shape.m : shape.k, flags.transpose_a},
       {product.b, flags.transpose_b ? shape.k : shape.n, flags.transpose_b}, {product.c, shape.n},
       {product.alpha, product.beta}, settings);
}

struct MatMulParameters {
  MatMulFlags flags;
  bool has_bias = false;
  Activation activation = Activation::kNone;
};

// The kernel of MatMul, or of MatMul with a fused bias and Relu. Immutable; thread-safe.
class MatMulKernel : public Kernel {
 public:
  MatMulKernel(const MatMulParameters& parameters, const GemmSettings& settings,
               std::unique_ptr<Kernel> reference)
      : parameters_(parameters), settings_(settings), reference_(std::move(reference)) {}

  absl::Status Run(KernelContext& context) const override {
    const Tensor a = context.input(0);
    const Tensor b = context.input(1);
    if (reference_ != nullptr && !(IsFloat32(a) && IsFloat32(b))) return reference_->Run(context);
    RETURN_IF_ERROR(RequireType(a, DType::kFloat32));
    RETURN_IF_ERROR(RequireType(b, DType::kFloat32));
    ASSIGN_OR_RETURN(MatMulShape shape, ResolveMatMul(a.shape(), b.shape(), parameters_.flags));
    RETURN_IF_ERROR(CheckBias(context, shape));
    float* out = context.Output(0, DType::kFloat32, shape.result).mutable_data<float>();
    // The bias and the activation are applied in one pass over the finished product.
    MultiplyStack(a, b, shape, out);
    if (parameters_.has_bias) {
      const int64_t rows = shape.n == 0 ? 0 : shape.result.num_elements() / shape.n;
      BiasLoop({out, rows, shape.n}, context.input(2).data<float>(), parameters_.activation);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckBias(const KernelContext& context, const MatMulShape& shape) const {
    if (!parameters_.has_bias) return absl::OkStatus();
    const Tensor& bias = context.input(2);
    RETURN_IF_ERROR(RequireType(bias, DType::kFloat32));
    if (bias.shape() == Shape{shape.n}) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("bias ", bias.TypeString(), " for ", shape.n, " columns"));
  }

  void MultiplyStack(const Tensor& a, const Tensor& b, MatMulShape shape, float* out) const {
    const float* data_a = a.data<float>();
    const float* data_b = b.data<float>();
    if (shape.result.num_elements() == 0) return;
    // Every matrix of `a` is multiplied by the same matrix `b`, so the matrices of `a` count as one
    // tall matrix.
    if (b.shape().rank() <= 2 && a.shape().rank() > 2) {
      shape.m = shape.result.num_elements() / shape.n;
      return Multiply({data_a, data_b, out, 1, 0}, shape, parameters_.flags, settings_);
    }
    const BroadcastAxis run = shape.batches.back();
    ForEachRun(shape.batches, [&](int64_t first_a, int64_t first_b, int64_t first) {
      for (int64_t i = 0; i < run.size; ++i) {
        const Product product = {data_a + (first_a + i * run.stride_a) * shape.m * shape.k,
                                 data_b + (first_b + i * run.stride_b) * shape.k * shape.n,
                                 out + (first + i) * shape.m * shape.n, 1, 0};
        Multiply(product, shape, parameters_.flags, settings_);
      }
    });
  }

  const MatMulParameters parameters_;
  const GemmSettings settings_;
  // The reference kernel of MatMul; null for MatMulBias, which has float32 only.
  const std::unique_ptr<Kernel> reference_;
};

// The kernel of Gemm, computed by oneDNN. Immutable; thread-safe.
class GemmKernel : public Kernel {
 public:
  GemmKernel(const GemmParameters& parameters, const GemmSettings& settings,
             std::unique_ptr<Kernel> reference)
      : parameters_(parameters), settings_(settings), reference_(std::move(reference)) {}

  absl::Status Run(KernelContext& context) const override {
    const Tensor a = context.input(0);
    const Tensor b = context.input(1);
    const Tensor c = context.input(2);
    const absl::StatusOr<MatMulShape> shape = ResolveGemm(a, b, c, parameters_.flags);
    if (!shape.ok() || !IsFloat32(a) || !IsFloat32(b)) return reference_->Run(context);
    float* out = context.Output(0, DType::kFloat32, shape->result).mutable_data<float>();
    // Gemm's operand C is first broadcast into the output, and the product is then added to it.
    if (c.has_value() && parameters_.beta != 0) {
      const std::vector<BroadcastAxis> axes =
          BroadcastAxes(c.shape(), shape->result, shape->result);
      const BroadcastAxis run = axes.back();
      ForEachRun(axes, [&](int64_t from, int64_t, int64_t to) {
        ScaleLoop(parameters_.beta, {c.data<float>() + from, run.stride_a}, {out + to, run.size});
      });
    }
    const float beta = c.has_value() && parameters_.beta != 0 ? 1.0f : 0.0f;
    Multiply({a.data<float>(), b.data<float>(), out, parameters_.alpha, beta}, *shape,
             parameters_.flags, settings_);
    return absl::OkStatus();
  }

 private:
  const GemmParameters parameters_;
  const GemmSettings settings_;
  const std::unique_ptr<Kernel> reference_;
};

MatMulParameters ParseFused(AttributeReader& reader) {
  MatMulParameters parameters;
  parameters.has_bias = true;
  if (reader.String("activation", "") == "Relu") parameters.activation = Activation::kRelu;
  return parameters;
}

}  // namespace

void RegisterCpuMatMul(const CpuRegistration& registration, int threads) {
  using Result = absl::StatusOr<std::unique_ptr<Kernel>>;
  const auto settings = [threads](const onnx::NodeProto& node) {
    return GemmSettings{threads, PrecisionHere(node)};
  };
  const KernelDefinition mat_mul = registration.Reference("", "MatMul");
  const auto make_mat_mul = [settings, make = mat_mul.make](const onnx::NodeProto& node) -> Result {
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> reference, make(node));
    return std::make_unique<MatMulKernel>(MatMulParameters{}, settings(node), std::move(reference));
  };
  registration.registry.Add("", "MatMul", {mat_mul.signature, make_mat_mul});
  const KernelDefinition gemm = registration.Reference("", "Gemm");
  const auto make_gemm = [settings, make = gemm.make](const onnx::NodeProto& node) -> Result {
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> reference, make(node));
    AttributeReader reader(node);
    return std::make_unique<GemmKernel>(ParseGemm(reader), settings(node), std::move(reference));
  };
  registration.registry.Add("", "Gemm", {gemm.signature, make_gemm});
  // MatMulBias has no reference kernel: only FuseNodes makes such nodes, for float32.
  const auto make_fused = [settings](const onnx::NodeProto& node) -> Result {
    AttributeReader reader(node);
    const MatMulParameters parameters = ParseFused(reader);
    RETURN_IF_ERROR(reader.Finish());
    return std::make_unique<MatMulKernel>(parameters, settings(node), nullptr);
  };
  registration.registry.Add(kRuntimeDomain, "MatMulBias",
                            {{3, 3, {{DType::kFloat32}}}, make_fused});
}

}  // namespace cohort
