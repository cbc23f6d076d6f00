#include <algorithm>
#include <type_traits>

#include "common/runtime/kernels/einsum_shape.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

using EinsumTypes = SumTypes;

// A walk that adds the product of all factors to the sum, for all values of all labels. Offsets
// count elements. Thread-compatible.
template <typename T, typename Sum>
class ContractionWalk {
 public:
  ContractionWalk(const Contraction& contraction, std::vector<Sum>& sums)
      : contraction_(contraction), sums_(sums) {
    for (const Tensor& tensor : contraction.tensors) factors_.push_back(tensor.data<T>());
  }

  void Run() {
    const std::vector<int64_t>& extents = contraction_.extents;
    if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return;
    Walk(0, 0);
  }

 private:
  // Walks over the labels from number `label` on. The factors' pointers have moved to the values of
  // the labels before.
  void Walk(size_t label, int64_t sum) {
    if (label == contraction_.extents.size()) {
      Sum product = static_cast<Sum>(*factors_[0]);
      for (size_t i = 1; i < factors_.size(); ++i) product *= static_cast<Sum>(*factors_[i]);
      sums_[static_cast<size_t>(sum)] += product;
      return;
    }
    const int64_t extent = contraction_.extents[label];
    for (int64_t at = 0; at < extent; ++at) {
      Walk(label + 1, sum + at * contraction_.sum[label]);
      for (size_t i = 0; i < factors_.size(); ++i) factors_[i] += contraction_.factors[i][label];
    }
    for (size_t i = 0; i < factors_.size(); ++i) {
      factors_[i] -= extent * contraction_.factors[i][label];
    }
  }

  const Contraction& contraction_;
  std::vector<Sum>& sums_;
  std::vector<const T*> factors_;
};

absl::Status RunContraction(KernelContext& context, const Contraction& contraction) {
  const DType dtype = contraction.tensors[0].dtype();
  return DispatchTypes(EinsumTypes{}, contraction.tensors[0], [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // Sums of integers wrap around, as they do in NumPy.
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    std::vector<Sum> sums(static_cast<size_t>(contraction.result.num_elements()), Sum{0});
    ContractionWalk<T, Sum>(contraction, sums).Run();
    T* out = context.Output(0, dtype, contraction.result).template mutable_data<T>();
    for (const Sum sum : sums) *out++ = static_cast<T>(sum);
    return absl::OkStatus();
  });
}

absl::Status RunEinsum(KernelContext& context, const EinsumParameters& parameters) {
  ASSIGN_OR_RETURN(const Contraction contraction, EinsumContraction(context, parameters));
  return RunContraction(context, contraction);
}

absl::Status RunEinsumGrad(KernelContext& context, const EinsumParameters& parameters) {
  RETURN_IF_ERROR(RequireTypeIn(context.input(0), kFloats));
  ASSIGN_OR_RETURN(const Contraction contraction, EinsumGradContraction(context, parameters));
  return RunContraction(context, contraction);
}

}  // namespace

void RegisterReferenceEinsum(KernelRegistry& registry) {
  registry.Add(
      "", "Einsum",
      BoundKernel<EinsumParameters>({1, kAnyNumber, {EinsumTypes::Set()}}, ParseEinsum, RunEinsum));
  registry.Add(
      "cohort", "EinsumGrad",
      BoundKernel<EinsumParameters>({2, kAnyNumber, {kFloats}}, ParseEinsumGrad, RunEinsumGrad));
}

}  // namespace cohort
