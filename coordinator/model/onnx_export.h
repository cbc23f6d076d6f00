#pragma once

// The trained model as an ordinary ONNX model: the predict program with the value of each variable
// as an initializer. The structure of the model follows from the program alone, so it is known
// before the training whether the model can be exported. The values are added when the file is
// written (onnx_file.h).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"
#include "proto/program.pb.h"

namespace cohort {

// A variable whose whole value (all slices joined) is an initializer of the model.
struct ExportedVariable {
  std::string initializer;  // name of the initializer in the graph
  std::string variable;
  DType dtype = DType::kUndefined;
  Shape shape;
  size_t bytes() const { return static_cast<size_t>(shape.num_elements()) * ElementSize(dtype); }
};

struct OnnxExport {
  onnx::ModelProto model;  // the model, complete except for the values of variables
  std::vector<ExportedVariable> variables;
};

// Plans the export: the model has only standard operators and a symbolic batch, and passes
// libonnx's checks. Errors: INVALID_ARGUMENT for an input that is neither batch nor variable, for a
// variable whose shape the program does not tell, and for an operator outside ONNX's own domain,
// naming the operator.
absl::StatusOr<OnnxExport> PlanOnnxExport(const proto::Program& predict);

}  // namespace cohort
