#include "common/program/node_types.h"

#include <algorithm>
#include <exception>
#include <map>

#include "absl/strings/str_cat.h"
#include "onnx/defs/data_type_utils.h"
#include "onnx/defs/schema.h"

namespace cohort {
namespace {

// nullptr for a type that libonnx has no name for; then it throws.
onnx::DataType NamedType(const onnx::TypeProto& type) {
  try {
    return onnx::Utils::DataTypeUtils::ToType(type);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

std::vector<std::string> WrongInputTypes(const onnx::NodeProto& node, int opset,
                                         const ValueTypes& types) {
  const onnx::OpSchema* schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), opset, node.domain());
  std::vector<std::string> wrong;
  if (schema == nullptr || schema->inputs().empty()) return wrong;
  std::map<std::string, std::string> bound;  // type parameter ("T") -> type
  for (int i = 0; i < node.input_size(); ++i) {
    const onnx::TypeProto* type = node.input(i).empty() ? nullptr : types.Find(node.input(i));
    if (type == nullptr) continue;
    const size_t last = schema->inputs().size() - 1;
    const auto& formal = schema->inputs()[std::min(static_cast<size_t>(i), last)];
    const onnx::DataType data_type = NamedType(*type);
    if (data_type == nullptr) {
      wrong.push_back(absl::StrCat("input ", i, " (", formal.GetName(), ") has no type of ONNX"));
      continue;
    }
    if (formal.GetTypes().count(data_type) == 0) {
      wrong.push_back(
          absl::StrCat("input ", i, " (", formal.GetName(), ") cannot be ", *data_type));
      continue;
    }
    if (!formal.GetIsHomogeneous()) continue;
    const auto& first = bound.emplace(formal.GetTypeStr(), *data_type).first->second;
    if (first != *data_type) {
      wrong.push_back(absl::StrCat("input ", i, " (", formal.GetName(), ") is ", *data_type,
                                   ", but another input of its type ", formal.GetTypeStr(), " is ",
                                   first));
    }
  }
  return wrong;
}

}  // namespace cohort
