#include "common/program/tensor_proto.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// The largest number of elements of one weight. A protobuf message has fewer bytes than this
// number, so a model file cannot hold a larger weight.
constexpr int64_t kElementsMax = int64_t{1} << 31;

absl::Status Bad(const onnx::TensorProto& proto, const std::string& reason) {
  return absl::InvalidArgumentError(absl::StrCat("weight \"", proto.name(), "\": ", reason));
}

// Returns the number of elements that a weight's dimensions give. The limit kElementsMax holds for
// the product of all dimensions that are not 0, so code that multiplies only some of the
// dimensions, such as those of a row, cannot overflow either.
absl::StatusOr<int64_t> CountElements(const onnx::TensorProto& proto) {
  int64_t count = 1;
  bool is_empty = false;
  for (const int64_t dim : proto.dims()) {
    if (dim < 0) return Bad(proto, absl::StrCat("dimension ", dim, " is negative"));
    is_empty = is_empty || dim == 0;
    if (dim == 0) continue;
    if (__builtin_mul_overflow(count, dim, &count) || count > kElementsMax) {
      return Bad(proto, "too many elements");
    }
  }
  return is_empty ? 0 : count;
}

// Returns the number of values in the message field in which ONNX stores elements of the type
// `dtype`.
int64_t TypedCount(const onnx::TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return proto.float_data_size();
    case DType::kFloat64:
      return proto.double_data_size();
    case DType::kInt64:
      return proto.int64_data_size();
    default:
      // ONNX stores all integer types except int64, and all 16-bit types, in the int32 field.
      return proto.int32_data_size();
  }
}

template <typename T, typename Field>
void CopyField(const Field& field, Tensor& tensor) {
  auto* out = reinterpret_cast<T*>(tensor.mutable_raw());
  for (const auto value : field) *out++ = static_cast<T>(value);
}

void CopyTyped(const onnx::TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return CopyField<float>(proto.float_data(), tensor);
    case DType::kFloat64:
      return CopyField<double>(proto.double_data(), tensor);
    case DType::kInt64:
      return CopyField<int64_t>(proto.int64_data(), tensor);
    case DType::kInt32:
      return CopyField<int32_t>(proto.int32_data(), tensor);
    case DType::kUint8:
      return CopyField<uint8_t>(proto.int32_data(), tensor);
    case DType::kInt8:
      return CopyField<int8_t>(proto.int32_data(), tensor);
    case DType::kBool:
      return CopyField<bool>(proto.int32_data(), tensor);
    // ONNX stores the 16 bits of a float16 or bfloat16 in the low half of an int32.
    case DType::kFloat16:
    case DType::kBfloat16:
      return CopyField<uint16_t>(proto.int32_data(), tensor);
    case DType::kUndefined:
      return;
  }
}

}  // namespace

absl::Status CheckTensorProto(const onnx::TensorProto& proto) {
  const auto dtype = DTypeFromNumber(proto.data_type());
  if (!dtype.ok() || *dtype == DType::kUndefined) {
    return Bad(proto, absl::StrCat("element type ", proto.data_type(), " is not supported"));
  }
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return Bad(proto, "its data is outside the model file: export the model as one file");
  }
  ASSIGN_OR_RETURN(const int64_t count, CountElements(proto));
  if (proto.has_raw_data()) {
    const auto bytes = static_cast<int64_t>(proto.raw_data().size());
    // The number of bytes cannot overflow: `count` is at most 2^31, and an element has at most 8
    // bytes.
    if (bytes != count * static_cast<int64_t>(ElementSize(*dtype))) {
      return Bad(proto, absl::StrCat(bytes, " bytes of data for ", count, " elements"));
    }
  } else if (TypedCount(proto, *dtype) != count) {
    return Bad(proto, absl::StrCat(TypedCount(proto, *dtype), " values for ", count, " elements"));
  }
  return absl::OkStatus();
}

onnx::TensorProto ToTensorProto(const std::string& name, const Tensor& tensor) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(static_cast<int32_t>(tensor.dtype()));
  for (const int64_t dim : tensor.shape().dims()) proto.add_dims(dim);
  proto.set_raw_data(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes());
  return proto;
}

absl::StatusOr<Tensor> FromTensorProto(const onnx::TensorProto& proto) {
  RETURN_IF_ERROR(CheckTensorProto(proto));
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(proto.data_type()));
  Tensor tensor(dtype, Shape(absl::MakeConstSpan(proto.dims().data(),
                                                 static_cast<size_t>(proto.dims_size()))));
  if (!proto.has_raw_data()) {
    CopyTyped(proto, tensor);
    // An empty tensor may have the address null, with which memcpy must not be called.
  } else if (!proto.raw_data().empty()) {
    std::memcpy(tensor.mutable_raw(), proto.raw_data().data(), proto.raw_data().size());
  }
  return tensor;
}

}  // namespace cohort
