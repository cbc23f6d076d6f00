#include "common/runtime/kernels/attribute_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cohort {

bool AttributeReader::Has(const std::string& name) const {
  for (const onnx::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return true;
  }
  return false;
}

const onnx::AttributeProto* AttributeReader::Raw(const std::string& name) {
  // The attribute's name counts as read even if the node lacks the attribute; Finish refuses only
  // attributes whose names were never read.
  read_.insert(name);
  for (const onnx::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

const onnx::AttributeProto* AttributeReader::Find(const std::string& name,
                                                  onnx::AttributeProto::AttributeType type) {
  const onnx::AttributeProto* attribute = Raw(name);
  // An absent attribute is no error: the caller has a default.
  if (attribute == nullptr || attribute->type() == type) return attribute;
  Fail(absl::StrCat("attribute '", name, "' has the wrong type"));
  return nullptr;
}

int64_t AttributeReader::Int(const std::string& name, int64_t otherwise) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::INT);
  return attribute == nullptr ? otherwise : attribute->i();
}

float AttributeReader::Float(const std::string& name, float otherwise) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::FLOAT);
  return attribute == nullptr ? otherwise : attribute->f();
}

std::string AttributeReader::String(const std::string& name, const std::string& otherwise) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::STRING);
  return attribute == nullptr ? otherwise : attribute->s();
}

std::vector<int64_t> AttributeReader::Ints(const std::string& name) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::INTS);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

void AttributeReader::Fail(const std::string& message) { errors_.push_back(message); }

absl::Status AttributeReader::Finish() {
  for (const onnx::AttributeProto& attribute : node_.attribute()) {
    // An attribute that the kernel never read is an error, because it would otherwise be ignored
    // silently.
    if (read_.count(attribute.name()) > 0) continue;
    Fail(absl::StrCat("attribute '", attribute.name(), "' is not supported"));
  }
  if (errors_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors_, ", "));
}

}  // namespace cohort
