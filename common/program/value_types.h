#pragma once

// What shape inference found out: the element type and the shape of each value of a graph. A
// dimension is a number, a name ("N") or unknown; two named dimensions are equal when their names
// are.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// Of one graph, not of its subgraphs. Thread-compatible; reads the graph only in the constructor.
class ValueTypes {
 public:
  explicit ValueTypes(const onnx::GraphProto& graph);

  // nullptr for a value of unknown type.
  const onnx::TypeProto* Find(const std::string& value) const;
  // kUndefined for an unknown or foreign type (a sequence, a string tensor).
  DType dtype(const std::string& value) const;
  // "float16", "string", "non-tensor"; "" for an unknown type.
  std::string ElementTypeName(const std::string& value) const;
  bool IsReal(const std::string& value) const;
  // nullptr when not even the rank is known.
  const onnx::TensorShapeProto* shape(const std::string& value) const;
  std::optional<int> rank(const std::string& value) const;
  // True only when every dimension of both is known, by number or by name, and equal.
  bool SameShape(const std::string& a, const std::string& b) const;

 private:
  std::map<std::string, onnx::TypeProto> types_;
};

// "float32[N,784]"; "?" for what is unknown.
std::string TypeText(const onnx::TypeProto* type);

}  // namespace cohort
