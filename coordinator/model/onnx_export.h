#pragma once

// The trained model as an ordinary ONNX model: the predict program with each variable's value
// inside as an initializer. What the model is made of follows from the program alone, so whether it
// can be exported is known before anything is trained; the values are added as the file is written
// (onnx_file.h).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"
#include "proto/program.pb.h"

namespace cohort {

// A variable whose whole value (slices joined) is one of the model's initializers.
struct ExportedVariable {
  std::string initializer;  // the name in the graph
  std::string variable;
  DType dtype = DType::kUndefined;
  Shape shape;
  size_t bytes() const { return static_cast<size_t>(shape.num_elements()) * ElementSize(dtype); }
};

struct OnnxExport {
  onnx::ModelProto model;  // complete but for the variables
  std::vector<ExportedVariable> variables;
};

// Plans the export of a model with standard operators only, a symbolic batch, and libonnx's checks
// passed. Errors: INVALID_ARGUMENT for an input that is neither batch nor variable, for a variable
// whose shape the program does not say, and for an operator outside ONNX's own domain, naming it.
absl::StatusOr<OnnxExport> PlanOnnxExport(const proto::Program& predict);

}  // namespace cohort
