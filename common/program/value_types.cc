#include "common/program/value_types.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace cohort {
namespace {

// Returns NumPy's name of an element type that Cohort's tensors can have, and ONNX's name of any
// other element type.
std::string ElementName(const onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return "non-tensor";
  const int32_t number = type.tensor_type().elem_type();
  const auto dtype = DTypeFromNumber(number);
  if (dtype.ok()) return std::string(DTypeName(*dtype));
  if (!onnx::TensorProto::DataType_IsValid(number)) return absl::StrCat("type", number);
  return absl::AsciiStrToLower(
      onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(number)));
}

}  // namespace

ValueTypes::ValueTypes(const onnx::GraphProto& graph) {
  // A type that the graph declares for an input or an output takes precedence over an inferred type
  // of the same value.
  for (const auto* list : {&graph.value_info(), &graph.output(), &graph.input()}) {
    for (const onnx::ValueInfoProto& info : *list) {
      if (info.type().value_case() != onnx::TypeProto::VALUE_NOT_SET)
        types_[info.name()] = info.type();
    }
  }
  // A weight's data gives the weight's type and shape. They take precedence over the type that
  // inference or the graph gives to the value.
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    onnx::TypeProto type;
    type.mutable_tensor_type()->set_elem_type(tensor.data_type());
    auto* shape = type.mutable_tensor_type()->mutable_shape();
    for (const int64_t dim : tensor.dims()) shape->add_dim()->set_dim_value(dim);
    types_[tensor.name()] = std::move(type);
  }
}

const onnx::TypeProto* ValueTypes::Find(const std::string& value) const {
  const auto it = types_.find(value);
  return it == types_.end() ? nullptr : &it->second;
}

DType ValueTypes::dtype(const std::string& value) const {
  const onnx::TypeProto* type = Find(value);
  if (type == nullptr || !type->has_tensor_type()) return DType::kUndefined;
  const auto dtype = DTypeFromNumber(type->tensor_type().elem_type());
  return dtype.ok() ? *dtype : DType::kUndefined;
}

std::string ValueTypes::ElementTypeName(const std::string& value) const {
  const onnx::TypeProto* type = Find(value);
  // In ONNX, element type 0 means "undefined", even if the shape of the value is known.
  const bool known =
      type != nullptr && !(type->has_tensor_type() && type->tensor_type().elem_type() == 0);
  return known ? ElementName(*type) : "";
}

bool ValueTypes::IsReal(const std::string& value) const {
  const DType type = dtype(value);
  return type == DType::kFloat32 || type == DType::kFloat64 || type == DType::kFloat16 ||
         type == DType::kBfloat16;
}

const onnx::TensorShapeProto* ValueTypes::shape(const std::string& value) const {
  const onnx::TypeProto* type = Find(value);
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) {
    return nullptr;
  }
  return &type->tensor_type().shape();
}

std::optional<int> ValueTypes::rank(const std::string& value) const {
  const onnx::TensorShapeProto* dims = shape(value);
  if (dims == nullptr) return std::nullopt;
  return dims->dim_size();
}

bool ValueTypes::SameShape(const std::string& a, const std::string& b) const {
  const onnx::TensorShapeProto* x = shape(a);
  const onnx::TensorShapeProto* y = shape(b);
  if (x == nullptr || y == nullptr || x->dim_size() != y->dim_size()) return false;
  for (int i = 0; i < x->dim_size(); ++i) {
    const auto& p = x->dim(i);
    const auto& q = y->dim(i);
    const bool same_number =
        p.has_dim_value() && q.has_dim_value() && p.dim_value() == q.dim_value();
    // A dimension with neither a name nor a number is unknown, so it does not count as equal to any
    // dimension.
    const bool same_name = p.has_dim_param() && q.has_dim_param() && !p.dim_param().empty() &&
                           p.dim_param() == q.dim_param();
    if (!same_number && !same_name) return false;
  }
  return true;
}

std::string TypeText(const onnx::TypeProto* type) {
  if (type == nullptr) return "?";
  if (!type->has_tensor_type()) return "non-tensor";
  std::string text = ElementName(*type);
  if (!type->tensor_type().has_shape()) return text + "[...]";
  text += "[";
  const auto& shape = type->tensor_type().shape();
  for (int i = 0; i < shape.dim_size(); ++i) {
    if (i > 0) text += ",";
    const auto& dim = shape.dim(i);
    if (dim.has_dim_value()) {
      absl::StrAppend(&text, dim.dim_value());
    } else {
      text += dim.dim_param().empty() ? "?" : dim.dim_param();
    }
  }
  return text + "]";
}

}  // namespace cohort
