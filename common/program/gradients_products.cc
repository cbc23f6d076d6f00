#include <numeric>
#include <utility>

#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// A factor of a Gemm: a matrix, and whether the Gemm uses the transpose of the matrix.
struct Factor {
  std::string value;
  bool transposed;
};

// Adds a Gemm node that multiplies two factors, and returns the name of the product.
std::string Product(GradientSite& site, const Factor& a, const Factor& b, float alpha = 1) {
  std::vector<onnx::AttributeProto> attributes = {IntAttribute("transA", a.transposed ? 1 : 0),
                                                  IntAttribute("transB", b.transposed ? 1 : 0)};
  if (alpha != 1) attributes.push_back(FloatAttribute("alpha", alpha));
  return site.Onnx("Gemm", {a.value, b.value}, std::move(attributes));
}

// Sets the gradients of Y = alpha * op(A) op(B) for matrices, where op is the transpose or the
// identity: d op(A) = alpha * dY op(B)' and d op(B) = alpha * op(A)' dY. If op transposes a factor,
// the factor's gradient is the transpose of d op(factor).
void SetMatrixGradients(GradientSite& site, const Factor& a, const Factor& b, float alpha) {
  const Factor dy = {site.dy(), false};
  const Factor dy_transposed = {site.dy(), true};
  if (site.Wants(0)) {
    site.Set(0, a.transposed ? Product(site, b, dy_transposed, alpha)
                             : Product(site, dy, {b.value, !b.transposed}, alpha));
  }
  if (site.Wants(1)) {
    site.Set(1, b.transposed ? Product(site, dy_transposed, a, alpha)
                             : Product(site, {a.value, !a.transposed}, dy, alpha));
  }
}

// Adds a node that transposes each matrix of a batch.
std::string SwapLastTwo(GradientSite& site, const std::string& value, int rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return site.Onnx("Transpose", {value}, {IntsAttribute("perm", perm)});
}

// A factor of a MatMul that is not a plain product of two matrices: at least one factor has a rank
// other than 2. As in ONNX and NumPy, a vector counts as a matrix of one row (A) or one column (B),
// and leading axes are broadcast.
struct BatchedFactor {
  std::string value;
  int rank;
};

// Returns input `input` of a MatMul as a matrix or a batch of matrices; a vector is reshaped to a
// matrix.
BatchedFactor AsMatrix(GradientSite& site, int input, int rank) {
  if (rank >= 2) return {site.input(input), rank};
  const std::vector<int64_t> shape =
      input == 0 ? std::vector<int64_t>{1, -1} : std::vector<int64_t>{-1, 1};
  return {site.Onnx("Reshape", {site.input(input), site.Int64s(shape)}), 2};
}

// Returns dY with the axes that MatMul dropped because a factor was a vector. In the shape argument
// of Reshape, a 0 means that the dimension stays as it is.
std::string WithDroppedAxes(GradientSite& site, int rank_a, int rank_b, int rank_y) {
  if (rank_a >= 2 && rank_b >= 2) return site.dy();
  std::vector<int64_t> shape(static_cast<size_t>(rank_y), 0);
  if (rank_a == 1 && rank_b == 1) {
    // The product of two vectors is a scalar, whose shape has no dimension to copy.
    shape = {1, 1};
  } else if (rank_a == 1) {
    // MatMul treats a vector A as a matrix of one row and drops the row axis from Y. So dY lacks
    // the second to last axis of the matrix product.
    shape.back() = 1;
    shape.push_back(-1);
  } else {
    shape.push_back(1);
  }
  return site.Onnx("Reshape", {site.dy(), site.Int64s(shape)});
}

// Sets the gradient of one input of MatMul. `product` is the gradient of the matrix (or batch of
// matrices) as which the input was multiplied. It is summed over broadcast axes, and reshaped to a
// vector if the input is a vector.
void SetBatched(GradientSite& site, int input, int rank, const BatchedFactor& factor,
                const std::string& product) {
  const std::string reduced = site.Cohort("ReduceToShapeOf", {product, factor.value});
  site.Set(input, rank == 1 ? site.Cohort("ReshapeLike", {reduced, site.input(input)}) : reduced);
}

absl::Status MatMul(GradientSite& site) {
  const auto& types = site.forward().types();
  const auto rank_a = types.rank(site.input(0));
  const auto rank_b = types.rank(site.input(1));
  const auto rank_y = types.rank(site.output(0));
  if (!rank_a || !rank_b || !rank_y) {
    return absl::InvalidArgumentError("the ranks of its inputs are unknown");
  }
  // The gradients of a product of two matrices are Gemms. Gemm can transpose its inputs, so no
  // reshaping and no transposed copies are needed.
  if (*rank_a == 2 && *rank_b == 2) {
    SetMatrixGradients(site, {site.input(0), false}, {site.input(1), false}, 1);
    return absl::OkStatus();
  }
  const std::string dy = WithDroppedAxes(site, *rank_a, *rank_b, *rank_y);
  const BatchedFactor a = AsMatrix(site, 0, *rank_a);
  const BatchedFactor b = AsMatrix(site, 1, *rank_b);
  if (site.Wants(0)) {
    const std::string da = site.Onnx("MatMul", {dy, SwapLastTwo(site, b.value, b.rank)});
    SetBatched(site, 0, *rank_a, a, da);
  }
  if (site.Wants(1)) {
    const std::string db = site.Onnx("MatMul", {SwapLastTwo(site, a.value, a.rank), dy});
    SetBatched(site, 1, *rank_b, b, db);
  }
  return absl::OkStatus();
}

absl::Status Gemm(GradientSite& site) {
  SetMatrixGradients(site, {site.input(0), site.Int("transA", 0) != 0},
                     {site.input(1), site.Int("transB", 0) != 0}, site.Float("alpha", 1));
  if (site.Wants(2)) {
    // Gemm adds beta times its third input, C, which may have been broadcast. So the gradient of C
    // is beta * dY, summed over broadcast axes.
    const float beta = site.Float("beta", 1);
    site.SetReduced(
        2, beta == 1 ? site.dy() : site.Onnx("Mul", {site.dy(), site.Scalar(double{beta})}));
  }
  return absl::OkStatus();
}

absl::Status Einsum(GradientSite& site) {
  std::vector<std::string> inputs = {site.dy()};
  const int count = site.node().input_size();
  for (int i = 0; i < count; ++i) inputs.push_back(site.input(i));
  for (int i = 0; i < count; ++i) {
    if (!site.Wants(i)) continue;
    auto attributes = site.CopyAttributes({"equation"});
    attributes.push_back(IntAttribute("operand", i));
    site.Set(i, site.Cohort("EinsumGrad", inputs, std::move(attributes)));
  }
  return absl::OkStatus();
}

}  // namespace

void AddProductGradients(GradientRules& rules) {
  rules["Einsum"] = {Einsum};
  rules["MatMul"] = {MatMul};
  rules["Gemm"] = {Gemm};
}

}  // namespace cohort
