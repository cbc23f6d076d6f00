#pragma once

// Jobs, batches and a way to run programs, shared by the tests of coordinator/model.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/layers/layer_target.h"
#include "nlohmann/json.hpp"
#include "onnx/onnx_pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

// The whole of tests/golden/`name`; a test failure and an empty object when it cannot be read.
nlohmann::json ReadGolden(const std::string& name);

// A job of the parts that matter to programs. The arguments are Keras's serialised forms.
absl::StatusOr<JobSpec> MakeJob(const nlohmann::json& model, const nlohmann::json& optimizer,
                                const nlohmann::json& loss, const nlohmann::json& metrics);

proto::ComponentSpec Component(DType dtype, const std::vector<int64_t>& dims);
proto::ElementSpec Batch(const proto::ComponentSpec& x, const proto::ComponentSpec& y);

// Runs a program on the reference kernels: component i of `batch` and the variables by name.
// Outputs in graph order.
absl::StatusOr<std::vector<Tensor>> RunProgram(const proto::Program& program,
                                               const std::vector<Tensor>& batch,
                                               const std::map<std::string, Tensor>& variables);

// A model on the reference kernels, without bindings.
absl::StatusOr<std::vector<Tensor>> RunGraph(const onnx::ModelProto& model,
                                             const std::vector<Tensor>& inputs);

// The model of the program with these values, as it is read back from its one file.
absl::StatusOr<onnx::ModelProto> Exported(const proto::Program& predict,
                                          const std::map<std::string, Tensor>& values);

// Reads a layer from its class form, plans one call with these inputs and adds its nodes in
// training mode. Ids are looked up as they are in the first input.
absl::StatusOr<LayerValue> BuildLayer(const nlohmann::json& form,
                                      const std::vector<LayerValue>& inputs, GraphBuilder& graph,
                                      StateValues& state);

Tensor FloatTensor(const nlohmann::json& values, const Shape& shape);
Tensor Int64Tensor(const nlohmann::json& values, const Shape& shape);

// Of two float32 tensors of one shape: the largest |a - b| / max(1, |b|).
double LargestError(const Tensor& a, const Tensor& b);

}  // namespace cohort
