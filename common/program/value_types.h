#pragma once

// The results of shape inference: the element type and the shape of each value of a graph. A
// dimension is a number, a name ("N") or unknown; two named dimensions are equal if their names
// are.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// The types of one graph, without its subgraphs. Thread-compatible; reads the graph only in the
// constructor.
class ValueTypes {
 public:
  explicit ValueTypes(const onnx::GraphProto& graph);

  // Returns nullptr for a value of unknown type.
  const onnx::TypeProto* Find(const std::string& value) const;
  // Returns kUndefined for an unknown or foreign type (a sequence, a string tensor).
  DType dtype(const std::string& value) const;
  // Returns "float16", "string", "non-tensor", or "" for an unknown type.
  std::string ElementTypeName(const std::string& value) const;
  bool IsReal(const std::string& value) const;
  // Returns nullptr if not even the rank is known.
  const onnx::TensorShapeProto* shape(const std::string& value) const;
  std::optional<int> rank(const std::string& value) const;
  // Returns true only if every dimension of both is known, by number or by name, and equal.
  bool SameShape(const std::string& a, const std::string& b) const;

 private:
  std::map<std::string, onnx::TypeProto> types_;
};

// Returns text such as "float32[N,784]", with "?" for what is unknown.
std::string TypeText(const onnx::TypeProto* type);

}  // namespace cohort
