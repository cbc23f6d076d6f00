// Einsum of two inputs, and gradients with two factors, as stacks of matrix products. A label of
// both factors and of the sum numbers products, one of both factors alone is the sum inside a
// product, and one of a single factor and the sum is a row or a column of a product. Where labels
// of one kind do not merge into one axis of a matrix, the matrix is copied.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/gemm.h"
#include "common/runtime/kernels/einsum_shape.h"

namespace cohort {

namespace {

// The tensors of a contraction: the two factors and the sum.
enum Role : size_t { kA, kB, kSum, kRoles };

struct Label {
  int64_t extent = 1;
  int64_t strides[kRoles] = {};

  bool IsOf(Role role) const { return strides[role] != 0; }
};
using Labels = std::vector<Label>;

int64_t CountOf(const Labels& labels) {
  int64_t count = 1;
  for (const Label& label : labels) count *= label.extent;
  return count;
}

// Sorts labels so that the last one moves `role` least.
void SortBy(Role role, Labels& labels) {
  std::stable_sort(labels.begin(), labels.end(), [role](const Label& a, const Label& b) {
    return a.strides[role] > b.strides[role];
  });
}

// Returns the stride of a tensor along labels that are walked as one axis, or nothing if the tensor
// has no such stride. Labels without extents have the stride 1.
std::optional<int64_t> MergedStride(const Labels& labels, Role role) {
  if (labels.empty()) return 1;
  for (size_t i = 0; i + 1 < labels.size(); ++i) {
    const Label& inner = labels[i + 1];
    if (labels[i].strides[role] != inner.strides[role] * inner.extent) return std::nullopt;
  }
  return labels.back().strides[role];
}

// Calls visit(offset) for each combination of values of the labels, the last label fastest.
template <typename Visit>
void ForEachOffset(const Labels& labels, Role role, Visit&& visit, size_t label = 0,
                   int64_t offset = 0) {
  if (label == labels.size()) return visit(offset);
  const Label& each = labels[label];
  for (int64_t at = 0; at < each.extent; ++at) {
    ForEachOffset(labels, role, visit, label + 1, offset + at * each.strides[role]);
  }
}

// Returns the offset of each combination of values of the labels, the last label fastest.
std::vector<int64_t> OffsetsOf(const Labels& labels, Role role) {
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(CountOf(labels)));
  ForEachOffset(labels, role, [&](int64_t offset) { offsets.push_back(offset); });
  return offsets;
}

// A contraction sorted into a stack of products of [m,k] and [k,n].
struct Products {
  Labels stack;
  Labels m;
  Labels n;
  Labels k;
};

// Sorts the labels of a contraction of two factors. Returns nothing if a label is of the sum alone
// or of a factor alone, if the sum has a diagonal, of which one element has several strides, or if
// the products are of single numbers.
std::optional<Products> SortLabels(const Contraction& contraction) {
  if (contraction.factors.size() != 2) return std::nullopt;
  Products products;
  int64_t elements = 1;
  for (size_t i = 0; i < contraction.extents.size(); ++i) {
    const Label label = {
        contraction.extents[i],
        {contraction.factors[kA][i], contraction.factors[kB][i], contraction.sum[i]}};
    if (label.extent == 1) continue;
    const bool a = label.IsOf(kA);
    const bool b = label.IsOf(kB);
    const bool sum = label.IsOf(kSum);
    if (a + b + sum < 2) return std::nullopt;
    if (sum) elements *= label.extent;
    Labels& of_kind = a && b && sum ? products.stack
                      : !b          ? products.m
                      : !a          ? products.n
                                    : products.k;
    of_kind.push_back(label);
  }
  // Products of single numbers are faster in the reference's loop.
  if (products.m.empty() && products.n.empty() && products.k.empty()) return std::nullopt;
  // Labels that do not reach all elements of the sum are those of a diagonal.
  if (elements != contraction.result.num_elements()) return std::nullopt;
  SortBy(kSum, products.stack);
  SortBy(kSum, products.m);
  SortBy(kSum, products.n);
  SortBy(kA, products.k);
  return products;
}

// A factor of a product as a matrix of oneDNN, at the offset 0 of the tensor. If `moves`, the
// matrix has to be copied to a place of its own first, row by row.
struct MatrixPlan {
  int64_t stride = 1;
  bool transposed = false;
  bool moves = false;
};

// Plans the matrix of `role` with these rows and columns.
MatrixPlan PlanMatrix(const Labels& rows, const Labels& columns, Role role) {
  const std::optional<int64_t> row = MergedStride(rows, role);
  const std::optional<int64_t> column = MergedStride(columns, role);
  const int64_t row_count = CountOf(rows);
  const int64_t column_count = CountOf(columns);
  // A matrix of one row or column may have any stride along it.
  if (row && column && *column == 1 && (*row >= column_count || rows.empty())) {
    return {std::max(*row, column_count), false, false};
  }
  if (row && column && *row == 1 && (*column >= row_count || columns.empty())) {
    return {std::max(*column, row_count), true, false};
  }
  return {column_count, false, true};
}

// The matrices of one factor, one for each product of a stack. Thread-compatible.
class FactorMatrices {
 public:
  FactorMatrices(const Labels& rows, const Labels& columns, Role role)
      : plan_(PlanMatrix(rows, columns, role)) {
    if (!plan_.moves) return;
    rows_ = OffsetsOf(rows, role);
    columns_ = OffsetsOf(columns, role);
    copy_.resize(rows_.size() * columns_.size());
  }

  // Returns the matrix that begins at `data`. The matrix is valid until the next call.
  GemmFactor At(const float* data) {
    if (!plan_.moves) return {data, plan_.stride, plan_.transposed};
    float* out = copy_.data();
    for (const int64_t row : rows_) {
      for (const int64_t column : columns_) *out++ = data[row + column];
    }
    return {copy_.data(), plan_.stride, false};
  }

 private:
  const MatrixPlan plan_;
  std::vector<int64_t> rows_;
  std::vector<int64_t> columns_;
  std::vector<float> copy_;
};

// Returns the same products with the factors swapped, so that rows of the sum become columns.
Products Swapped(Products products) {
  std::swap(products.m, products.n);
  for (Labels* labels : {&products.stack, &products.m, &products.n, &products.k}) {
    for (Label& label : *labels) std::swap(label.strides[kA], label.strides[kB]);
  }
  return products;
}

// Computes the sums, which oneDNN writes in place unless they are scattered over the result.
void Multiply(const Products& products, const float* a, const float* b, float* out,
              const GemmSettings& settings) {
  FactorMatrices matrices_a(products.m, products.k, kA);
  FactorMatrices matrices_b(products.k, products.n, kB);
  const MatrixPlan plan = PlanMatrix(products.m, products.n, kSum);
  const GemmExtents extents = {CountOf(products.m), CountOf(products.n), CountOf(products.k)};
  const std::vector<int64_t> offsets_a = OffsetsOf(products.stack, kA);
  const std::vector<int64_t> offsets_b = OffsetsOf(products.stack, kB);
  const std::vector<int64_t> offsets = OffsetsOf(products.stack, kSum);
  const bool scattered = plan.moves || plan.transposed;
  std::vector<float> copy(scattered ? static_cast<size_t>(extents.m * extents.n) : 0);
  const std::vector<int64_t> rows =
      scattered ? OffsetsOf(products.m, kSum) : std::vector<int64_t>();
  const std::vector<int64_t> columns =
      scattered ? OffsetsOf(products.n, kSum) : std::vector<int64_t>();
  for (size_t i = 0; i < offsets.size(); ++i) {
    const GemmResult place =
        scattered ? GemmResult{copy.data(), extents.n} : GemmResult{out + offsets[i], plan.stride};
    Gemm(extents, matrices_a.At(a + offsets_a[i]), matrices_b.At(b + offsets_b[i]), place, {},
         settings);
    if (!scattered) continue;
    const float* from = copy.data();
    for (const int64_t row : rows) {
      for (const int64_t column : columns) out[offsets[i] + row + column] = *from++;
    }
  }
}

// Computes a contraction that is a stack of products; returns false for any other.
bool Contract(KernelContext& context, const Contraction& contraction,
              const GemmSettings& settings) {
  for (const Tensor& tensor : contraction.tensors) {
    if (!IsFloat32(tensor) || tensor.num_elements() == 0) return false;
  }
  const std::optional<Products> products = SortLabels(contraction);
  if (!products || contraction.result.num_elements() == 0) return false;
  float* const out = context.Output(0, DType::kFloat32, contraction.result).mutable_data<float>();
  const float* const a = contraction.tensors[kA].data<float>();
  const float* const b = contraction.tensors[kB].data<float>();
  if (PlanMatrix(products->m, products->n, kSum).transposed) {
    Multiply(Swapped(*products), b, a, out, settings);
  } else {
    Multiply(*products, a, b, out, settings);
  }
  return true;
}

// The kernel of Einsum or of its gradient. Immutable; thread-safe.
class EinsumKernel : public Kernel {
 public:
  using Resolve = absl::StatusOr<Contraction> (*)(const KernelContext& context,
                                                  const EinsumParameters& parameters);

  EinsumKernel(EinsumParameters parameters, Resolve resolve, const GemmSettings& settings,
               std::unique_ptr<Kernel> reference)
      : parameters_(std::move(parameters)),
        resolve_(resolve),
        settings_(settings),
        reference_(std::move(reference)) {}

  absl::Status Run(KernelContext& context) const override {
    const absl::StatusOr<Contraction> contraction = resolve_(context, parameters_);
    const bool done = contraction.ok() && Contract(context, *contraction, settings_);
    return done ? absl::OkStatus() : reference_->Run(context);
  }

 private:
  const EinsumParameters parameters_;
  const Resolve resolve_;
  const GemmSettings settings_;
  const std::unique_ptr<Kernel> reference_;
};

}  // namespace

void RegisterCpuEinsum(const CpuRegistration& registration, int threads) {
  const auto add = [&](const std::string& domain, const std::string& op,
                       EinsumParameters (*parse)(AttributeReader&), EinsumKernel::Resolve resolve) {
    const KernelDefinition slow = registration.Reference(domain, op);
    const auto make = [parse, resolve, threads, make_slow = slow.make](
                          const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> reference, make_slow(node));
      AttributeReader reader(node);
      return std::make_unique<EinsumKernel>(
          parse(reader), resolve, GemmSettings{threads, PrecisionHere(node)}, std::move(reference));
    };
    registration.registry.Add(domain, op, {slow.signature, make});
  };
  add("", "Einsum", ParseEinsum, EinsumContraction);
  add("cohort", "EinsumGrad", ParseEinsumGrad, EinsumGradContraction);
}

}  // namespace cohort
