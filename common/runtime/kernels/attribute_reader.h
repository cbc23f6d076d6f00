#pragma once

// Reads a node's attributes once, when a program is compiled. Errors are collected, and Finish
// returns them: an attribute of the wrong type, an attribute that the kernel refused, or an
// attribute that was never read. So an attribute that a kernel does not know is an error and is
// never ignored.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// The attributes of one node, and the errors in them. Thread-compatible.
class AttributeReader {
 public:
  explicit AttributeReader(const onnx::NodeProto& node) : node_(node) {}

  bool Has(const std::string& name) const;
  int64_t Int(const std::string& name, int64_t otherwise);
  bool Flag(const std::string& name, bool otherwise) { return Int(name, otherwise ? 1 : 0) != 0; }
  float Float(const std::string& name, float otherwise);
  std::string String(const std::string& name, const std::string& otherwise);
  std::vector<int64_t> Ints(const std::string& name);
  // Returns the attribute `name` as a proto, or nullptr if the node does not have it.
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
