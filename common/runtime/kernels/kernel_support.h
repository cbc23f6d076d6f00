#pragma once

// Helpers that kernel files share. A kernel is a plain function of the context, and perhaps of
// attributes bound when the program is compiled; PlainKernel and BoundKernel make its definition
// from the function and a signature. DispatchTypes turns a tensor's element type at run time into a
// C++ type. A kernel's dispatch and its signature name the same type list, so a kernel is compiled
// for exactly the types that it declares.

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/kernel/kernel_registry.h"
#include "common/runtime/kernels/attribute_reader.h"
#include "common/tensor/tensor.h"

namespace cohort {

template <typename... Types>
struct TypeList {
  static constexpr DTypeSet Set() { return {DTypeOf<Types>::value...}; }
};
using FloatTypes = TypeList<float, double>;
using SignedTypes = TypeList<float, double, int8_t, int32_t, int64_t>;
using SumTypes = TypeList<float, double, int32_t, int64_t>;
using NumberTypes = TypeList<float, double, int32_t, int64_t, uint8_t, int8_t>;
using NativeTypes = TypeList<float, double, int32_t, int64_t, uint8_t, int8_t, bool>;
using IndexTypes = TypeList<int32_t, int64_t>;
using LabelTypes = TypeList<int32_t, int64_t, uint8_t>;

// The sets of the types in the lists above, for kernels' signatures. kAnyType is for kernels that
// move bytes without looking at the elements.
inline constexpr DTypeSet kFloats = FloatTypes::Set();
inline constexpr DTypeSet kSigned = SignedTypes::Set();
inline constexpr DTypeSet kSums = SumTypes::Set();
inline constexpr DTypeSet kNumbers = NumberTypes::Set();
inline constexpr DTypeSet kNative = NativeTypes::Set();
inline constexpr DTypeSet kIndices = IndexTypes::Set();
inline constexpr DTypeSet kLabels = LabelTypes::Set();
inline constexpr DTypeSet kBools = {DType::kBool};
inline constexpr DTypeSet kAnyType = DTypeSet::All();

// Allocates output 0 of a kernel of two inputs. The output may take over the memory of an input
// that has the result's shape: of input 0 if it has that shape, else of input 1.
Tensor& OutputOverEither(KernelContext& context, const Shape& shape);

// Returns input i of a node, or a tensor without value if the input is absent.
const Tensor& InputOr(const KernelContext& context, int i);

// Defines a kernel without attributes.
KernelDefinition PlainKernel(Signature signature, absl::Status (*run)(KernelContext&));

// Defines a kernel with attributes. `parse` reads the attributes into Parameters once, when the
// program is compiled.
template <typename Parameters>
KernelDefinition BoundKernel(Signature signature, Parameters (*parse)(AttributeReader&),
                             absl::Status (*run)(KernelContext&, const Parameters&)) {
  // A kernel that calls a function of the context and of the bound attributes. Immutable;
  // thread-safe.
  class Bound : public Kernel {
   public:
    Bound(Parameters parameters, absl::Status (*run)(KernelContext&, const Parameters&))
        : parameters_(std::move(parameters)), run_(run) {}
    absl::Status Run(KernelContext& context) const override { return run_(context, parameters_); }

   private:
    const Parameters parameters_;
    absl::Status (*const run_)(KernelContext&, const Parameters&);
  };
  const auto make = [=](const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    AttributeReader reader(node);
    Parameters parameters = parse(reader);
    RETURN_IF_ERROR(reader.Finish());
    return std::make_unique<Bound>(std::move(parameters), run);
  };
  return {std::move(signature), make};
}

absl::Status UnsupportedType(const Tensor& tensor);
absl::Status RequireType(const Tensor& tensor, DType dtype);
absl::Status RequireTypeIn(const Tensor& tensor, const DTypeSet& dtypes);
absl::Status RequireSameType(const Tensor& a, const Tensor& b);
absl::Status RequireSameShape(const Tensor& a, const Tensor& b);
absl::Status RequireRank(const Tensor& tensor, int rank);

// Returns `axis` counted from 0; a negative `axis` counts from the end. Errors: INVALID_ARGUMENT
// for an axis outside [-rank, rank).
absl::StatusOr<int> NormalAxis(int64_t axis, int rank);

// Limits for a shape that comes from the elements of an input (Expand, Unsqueeze): the largest
// rank, and the largest number of elements.
inline constexpr int kRankMax = 64;
inline constexpr int64_t kNewElementsMax = int64_t{1} << 31;
// Returns the shape with the extents `dims`. Errors: INVALID_ARGUMENT for a negative extent or a
// shape beyond kRankMax or kNewElementsMax.
absl::StatusOr<Shape> CheckedShape(absl::Span<const int64_t> dims);

// A shape seen as [outer, size, inner] around one axis.
struct AxisView {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
AxisView ViewAroundAxis(const Shape& shape, int axis);

// Returns the elements of an int32 or int64 tensor as int64. Errors: INVALID_ARGUMENT for another
// type.
absl::StatusOr<std::vector<int64_t>> ToInt64s(const Tensor& tensor);
// Returns the value of a scalar of any number type as double.
absl::StatusOr<double> ScalarValue(const Tensor& tensor);

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls body(TypeTag<T>) with the type T among Types that the tensor's elements have. Errors:
// INVALID_ARGUMENT if the tensor has none of these types.
template <typename... Types, typename Body>
absl::Status DispatchTypes(TypeList<Types...>, const Tensor& tensor, Body&& body) {
  absl::Status status = UnsupportedType(tensor);
  (void)((tensor.dtype() == DTypeOf<Types>::value ? (status = body(TypeTag<Types>{}), true)
                                                  : false) ||
         ...);
  return status;
}

template <typename Body>
absl::Status DispatchFloats(const Tensor& tensor, Body&& body) {
  return DispatchTypes(FloatTypes{}, tensor, body);
}

template <typename Body>
absl::Status DispatchNumbers(const Tensor& tensor, Body&& body) {
  return DispatchTypes(NumberTypes{}, tensor, body);
}

}  // namespace cohort
