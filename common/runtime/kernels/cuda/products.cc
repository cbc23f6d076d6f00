#include "common/runtime/kernels/cuda/cuda_kernel.h"
#include "common/runtime/kernels/matmul_shape.h"
#include "common/runtime/run/fusion.h"

namespace cohort {

namespace {

struct MatMulParameters {
  bool has_bias = false;
  bool relu = false;
};

// Posts a matrix product to cuBLAS. Posts nothing if an operand is empty, because cuBLAS does not
// accept empty operands.
void Multiply(CudaStream& stream, const GemmLaunch& product) {
  if (product.m == 0 || product.n == 0 || product.k == 0 || product.batch == 0) return;
  stream.Launch(&CudaLaunches::gemm, &GemmLaunches::gemm, product);
}

// Posts the products of two stacks of matrices. No matrix may be empty.
void MultiplyStack(CudaStream& stream, const Tensor& a, const Tensor& b, const MatMulShape& shape,
                   float* out) {
  GemmLaunch product;
  product.m = shape.m;
  product.n = shape.n;
  product.k = shape.k;
  product.a = OnDevice<float>(a);
  product.b = OnDevice<float>(b);
  product.c = out;
  // Every matrix of `a` is multiplied by the same matrix `b`, so the matrices of `a` count as one
  // tall matrix.
  if (b.shape().rank() <= 2 && a.shape().rank() > 2) {
    product.m = shape.result.num_elements() / shape.n;
    return Multiply(stream, product);
  }
  const BroadcastAxis run = shape.batches.back();
  product.batch = run.size;
  product.stride_a = run.stride_a * shape.m * shape.k;
  product.stride_b = run.stride_b * shape.k * shape.n;
  product.stride_c = shape.m * shape.n;
  // Each launch multiplies the matrices of one run along the innermost of the batch axes.
  ForEachRun(shape.batches, [&](int64_t first_a, int64_t first_b, int64_t first) {
    GemmLaunch part = product;
    part.a += first_a * shape.m * shape.k;
    part.b += first_b * shape.k * shape.n;
    part.c += first * shape.m * shape.n;
    Multiply(stream, part);
  });
}

absl::Status CheckBias(const Tensor& bias, const MatMulShape& shape) {
  RETURN_IF_ERROR(RequireType(bias, DType::kFloat32));
  if (bias.shape() == Shape{shape.n}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("bias ", bias.TypeString(), " for ", shape.n, " columns"));
}

absl::Status RunMatMul(KernelContext& context, const MatMulParameters& parameters) {
  const Tensor a = context.input(0);
  const Tensor b = context.input(1);
  RETURN_IF_ERROR(RequireType(a, DType::kFloat32));
  RETURN_IF_ERROR(RequireType(b, DType::kFloat32));
  ASSIGN_OR_RETURN(const MatMulShape shape, ResolveMatMul(a.shape(), b.shape(), {}));
  if (parameters.has_bias) RETURN_IF_ERROR(CheckBias(context.input(2), shape));
  Tensor& output = context.Output(0, DType::kFloat32, shape.result);
  if (output.num_elements() == 0) return absl::OkStatus();
  CudaStream& stream = context.stream();
  float* const out = OnDevice<float>(output);
  if (shape.k == 0) {
    stream.FillZeros(output);
  } else {
    MultiplyStack(stream, a, b, shape, out);
  }
  if (parameters.has_bias) {
    stream.Launch(&CudaLaunches::products, &ProductsLaunches::bias,
                  {output.num_elements() / shape.n, shape.n, OnDevice<float>(context.input(2)),
                   parameters.relu, out});
  }
  return absl::OkStatus();
}

// Writes scale * c, broadcast to the shape of `y`, into `y`. `c` has a rank of at most 2.
void Spread(CudaStream& stream, float scale, const Tensor& c, const MatMulShape& shape, float* y) {
  const int rank = c.shape().rank();
  const int64_t columns = rank >= 1 ? c.shape().dim(rank - 1) : 1;
  const int64_t rows = rank >= 2 ? c.shape().dim(rank - 2) : 1;
  stream.Launch(&CudaLaunches::products, &ProductsLaunches::spread,
                {shape.m, shape.n, scale, OnDevice<float>(c), rows == 1 ? 0 : columns,
                 columns == 1 ? 0 : 1, y});
}

absl::Status RunGemm(KernelContext& context, const GemmParameters& parameters) {
  const Tensor a = context.input(0);
  const Tensor b = context.input(1);
  const Tensor c = context.input(2);
  RETURN_IF_ERROR(RequireType(a, DType::kFloat32));
  RETURN_IF_ERROR(RequireSameType(a, b));
  ASSIGN_OR_RETURN(const MatMulShape shape, ResolveGemm(a, b, c, parameters.flags));
  Tensor& output = context.Output(0, DType::kFloat32, shape.result);
  if (output.num_elements() == 0) return absl::OkStatus();
  CudaStream& stream = context.stream();
  // Gemm's operand C is first written into the output, and the product is then added to it.
  const bool adds = c.has_value() && parameters.beta != 0;
  if (adds) {
    Spread(stream, parameters.beta, c, shape, OnDevice<float>(output));
  } else if (shape.k == 0) {
    stream.FillZeros(output);
  }
  Multiply(stream, {parameters.flags.transpose_a, parameters.flags.transpose_b, shape.m, shape.n,
                    shape.k, parameters.alpha, adds ? 1.0f : 0.0f, OnDevice<float>(a),
                    OnDevice<float>(b), OnDevice<float>(output)});
  return absl::OkStatus();
}

MatMulParameters ParsePlain(AttributeReader&) { return {}; }

MatMulParameters ParseFused(AttributeReader& reader) {
  return {true, reader.String("activation", "") == "Relu"};
}

}  // namespace

void RegisterCudaProducts(KernelRegistry& registry) {
  registry.Add("", "MatMul", DeviceKernel({2, 2, {kFloat32}}, {}, ParsePlain, RunMatMul));
  registry.Add("", "Gemm", DeviceKernel({2, 3, {kFloat32}}, {}, ParseGemm, RunGemm));
  registry.Add(kRuntimeDomain, "MatMulBias",
               DeviceKernel({3, 3, {kFloat32}}, {}, ParseFused, RunMatMul));
}

}  // namespace cohort
