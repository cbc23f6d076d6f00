#pragma once

// The results of shape inference: the element type and the shape of each value of a graph. A
// dimension is a number, a name ("N") or unknown. Two named dimensions are equal if their names are
// equal.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// The types of the values in one graph, without its subgraphs. The constructor copies the types;
// the graph is not needed afterwards. Thread-compatible.
class ValueTypes {
 public:
  explicit ValueTypes(const onnx::GraphProto& graph);

  // Returns the type of a value, or nullptr if the type is unknown.
  const onnx::TypeProto* Find(const std::string& value) const;
  // Returns the element type of a value, or kUndefined for a type that is unknown or that Cohort
  // does not have (a sequence, a string tensor).
  DType dtype(const std::string& value) const;
  // Returns the name of a value's element type, such as "float16", "string" or "non-tensor", or ""
  // for an unknown type.
  std::string ElementTypeName(const std::string& value) const;
  bool IsReal(const std::string& value) const;
  // Returns the shape of a value, or nullptr if even the rank is unknown.
  const onnx::TensorShapeProto* shape(const std::string& value) const;
  std::optional<int> rank(const std::string& value) const;
  // Returns true only if every dimension of both values is known, by number or by name, and is
  // equal.
  bool SameShape(const std::string& a, const std::string& b) const;

 private:
  std::map<std::string, onnx::TypeProto> types_;
};

// Returns a type as text, such as "float32[N,784]", with "?" for each unknown part.
std::string TypeText(const onnx::TypeProto* type);

}  // namespace cohort
