#pragma once

// What kernel files share: a kernel is a plain function (of the context, and of attributes bound
// when the program is compiled), wrapped with its arity; and the dispatch from a run-time element
// type to a C++ type.

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/kernel_registry.h"
#include "common/runtime/kernels/attribute_reader.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct Arity {
  int min_inputs = 1;  // these must be present
  int max_inputs = 1;
  int max_outputs = 1;
};

inline constexpr int kAnyNumber = 1 << 20;

// Errors: INVALID_ARGUMENT when the node has too few or too many inputs or outputs.
absl::Status CheckArity(const onnx::NodeProto& node, const Arity& arity);

// A kernel without attributes.
KernelFactory PlainKernel(Arity arity, absl::Status (*run)(KernelContext&));

// A kernel with attributes: `parse` reads them once into Parameters.
template <typename Parameters>
KernelFactory BoundKernel(Arity arity, Parameters (*parse)(AttributeReader&),
                          absl::Status (*run)(KernelContext&, const Parameters&)) {
  // Immutable; thread-safe.
  class Bound : public Kernel {
   public:
    Bound(Parameters parameters, absl::Status (*run)(KernelContext&, const Parameters&))
        : parameters_(std::move(parameters)), run_(run) {}
    absl::Status Run(KernelContext& context) const override { return run_(context, parameters_); }

   private:
    const Parameters parameters_;
    absl::Status (*const run_)(KernelContext&, const Parameters&);
  };
  return [=](const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    RETURN_IF_ERROR(CheckArity(node, arity));
    AttributeReader reader(node);
    Parameters parameters = parse(reader);
    RETURN_IF_ERROR(reader.Finish());
    return std::make_unique<Bound>(std::move(parameters), run);
  };
}

absl::Status UnsupportedType(const Tensor& tensor);
absl::Status RequireType(const Tensor& tensor, DType dtype);
absl::Status RequireSameType(const Tensor& a, const Tensor& b);
absl::Status RequireSameShape(const Tensor& a, const Tensor& b);
absl::Status RequireRank(const Tensor& tensor, int rank);

// A negative axis counts from the end. Errors: INVALID_ARGUMENT outside [-rank, rank).
absl::StatusOr<int> NormalAxis(int64_t axis, int rank);

// The shape seen as [outer, size, inner] around one axis.
struct AxisView {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
AxisView ViewAroundAxis(const Shape& shape, int axis);

// Elements as int64, from int32 or int64. Errors: INVALID_ARGUMENT for another type.
absl::StatusOr<std::vector<int64_t>> ToInt64s(const Tensor& tensor);
// The value of a scalar of any number type.
absl::StatusOr<double> ScalarValue(const Tensor& tensor);

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls body(TypeTag<T>) for the T among Types that `tensor` has. Errors: INVALID_ARGUMENT for
// another type.
template <typename... Types, typename Body>
absl::Status DispatchTypes(const Tensor& tensor, Body&& body) {
  absl::Status status = UnsupportedType(tensor);
  (void)((tensor.dtype() == DTypeOf<Types>::value ? (status = body(TypeTag<Types>{}), true)
                                                  : false) ||
         ...);
  return status;
}

template <typename Body>
absl::Status DispatchFloats(const Tensor& tensor, Body&& body) {
  return DispatchTypes<float, double>(tensor, body);
}

template <typename Body>
absl::Status DispatchNumbers(const Tensor& tensor, Body&& body) {
  return DispatchTypes<float, double, int32_t, int64_t, uint8_t, int8_t>(tensor, body);
}

template <typename Body>
absl::Status DispatchIndices(const Tensor& tensor, Body&& body) {
  return DispatchTypes<int32_t, int64_t, uint8_t>(tensor, body);
}

}  // namespace cohort
