#pragma once

// Reads a node's attributes once, when a program is compiled. Errors gather and are asked for at
// the end: an attribute of the wrong type, one that nobody read (so an option that a kernel does
// not know is never ignored), or one that a kernel refused.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// Thread-compatible.
class AttributeReader {
 public:
  explicit AttributeReader(const onnx::NodeProto& node) : node_(node) {}

  bool Has(const std::string& name) const;
  int64_t Int(const std::string& name, int64_t otherwise);
  bool Flag(const std::string& name, bool otherwise) { return Int(name, otherwise ? 1 : 0) != 0; }
  float Float(const std::string& name, float otherwise);
  std::string String(const std::string& name, const std::string& otherwise);
  std::vector<int64_t> Ints(const std::string& name);
  // Returns nullptr if the attribute is absent.
  const onnx::AttributeProto* Raw(const std::string& name);

  const onnx::NodeProto& node() const { return node_; }
  void Fail(const std::string& message);
  absl::Status Finish();

 private:
  const onnx::AttributeProto* Find(const std::string& name,
                                   onnx::AttributeProto::AttributeType type);

  const onnx::NodeProto& node_;
  std::set<std::string> read_;
  std::vector<std::string> errors_;
};

}  // namespace cohort
