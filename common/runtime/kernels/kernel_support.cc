#include "common/runtime/kernels/kernel_support.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace cohort {

const Tensor& InputOr(const KernelContext& context, int i) {
  // The tensor without value, which stands for an absent input, is never destroyed, because kernels
  // may run while the process exits.
  static const Tensor& absent = *new Tensor;
  return i < context.num_inputs() ? context.input(i) : absent;
}

KernelDefinition PlainKernel(Signature signature, absl::Status (*run)(KernelContext&)) {
  // A kernel that calls a function of the context. Immutable; thread-safe.
  class Plain : public Kernel {
   public:
    explicit Plain(absl::Status (*run)(KernelContext&)) : run_(run) {}
    absl::Status Run(KernelContext& context) const override { return run_(context); }

   private:
    absl::Status (*const run_)(KernelContext&);
  };
  const auto make = [=](const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    // A kernel without attributes returns an error for a node that has any attribute.
    RETURN_IF_ERROR(AttributeReader(node).Finish());
    return std::make_unique<Plain>(run);
  };
  return {std::move(signature), make};
}

absl::Status UnsupportedType(const Tensor& tensor) {
  return absl::InvalidArgumentError(absl::StrCat("has no kernel for ", DTypeName(tensor.dtype()),
                                                 " (input ", tensor.TypeString(), ")"));
}

absl::Status RequireType(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("needs ", DTypeName(dtype), ", not ", tensor.TypeString()));
}

absl::Status RequireTypeIn(const Tensor& tensor, const DTypeSet& dtypes) {
  return dtypes.Contains(tensor.dtype()) ? absl::OkStatus() : UnsupportedType(tensor);
}

absl::Status RequireSameType(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("needs inputs of one type, not ", a.TypeString(), " and ", b.TypeString()));
}

absl::Status RequireSameShape(const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("needs inputs of one shape, not ", a.TypeString(), " and ", b.TypeString()));
}

absl::Status RequireRank(const Tensor& tensor, int rank) {
  if (tensor.shape().rank() == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("needs rank ", rank, ", not ", tensor.TypeString()));
}

absl::StatusOr<int> NormalAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is not in a rank of ", rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<Shape> CheckedShape(absl::Span<const int64_t> dims) {
  const auto refuse = [&](absl::string_view reason) {
    // An error quotes at most kRankMax extents, so that the message stays short.
    const std::string text = absl::StrJoin(dims.subspan(0, kRankMax), ",");
    return absl::InvalidArgumentError(absl::StrCat("shape [", text, "] ", reason));
  };
  if (dims.size() > static_cast<size_t>(kRankMax)) {
    return refuse(absl::StrCat("goes on: its rank must be at most ", kRankMax));
  }
  int64_t count = 1;
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return refuse("has a negative extent");
    // An extent of 0 makes the tensor empty. Even then the product of the other extents must not
    // overflow.
    empty |= dim == 0;
    if (__builtin_mul_overflow(count, std::max<int64_t>(dim, 1), &count)) {
      return refuse("has more elements than a number can count");
    }
  }
  if (!empty && count > kNewElementsMax) {
    return refuse(
        absl::StrCat("has ", count, " elements: at most ", kNewElementsMax, " are possible"));
  }
  return Shape(dims);
}

AxisView ViewAroundAxis(const Shape& shape, int axis) {
  AxisView view;
  for (int i = 0; i < shape.rank(); ++i) {
    // Extents before the axis are multiplied into `outer`, extents after the axis into `inner`.
    int64_t& part = i < axis ? view.outer : i == axis ? view.size : view.inner;
    part *= shape.dim(i);
  }
  return view;
}

absl::StatusOr<std::vector<int64_t>> ToInt64s(const Tensor& tensor) {
  std::vector<int64_t> values;
  RETURN_IF_ERROR(DispatchTypes(IndexTypes{}, tensor, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    values.assign(tensor.span<T>().begin(), tensor.span<T>().end());
    return absl::OkStatus();
  }));
  return values;
}

absl::StatusOr<double> ScalarValue(const Tensor& tensor) {
  if (tensor.num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("needs a scalar, not ", tensor.TypeString()));
  }
  double value = 0;
  RETURN_IF_ERROR(DispatchNumbers(tensor, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    value = static_cast<double>(*tensor.data<T>());
    return absl::OkStatus();
  }));
  return value;
}

Tensor& OutputOverEither(KernelContext& context, const Shape& shape) {
  const int over = context.input(0).shape() == shape ? 0 : 1;
  if (context.input(over).shape() != shape) return context.Output(0, DType::kFloat32, shape);
  return context.OutputOver(0, over, DType::kFloat32, shape);
}

}  // namespace cohort
