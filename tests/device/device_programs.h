#pragma once

// What tests of programs on a device share.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/kernels/cpu/register.h"
#include "common/runtime/kernels/cuda/register.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_devices.h"

namespace cohort {

inline constexpr uint64_t kStandInMemory = 64 << 20;

inline Tensor Floats(const std::vector<float>& values) {
  return Tensor::FromVector<float>(values, Shape{static_cast<int64_t>(values.size())});
}

// As a GraphBuilder does not make it: of any shapes, and of an operator that it does not know.
inline onnx::ModelProto OneNode(const std::string& domain, const std::string& op,
                                const std::vector<Tensor>& inputs) {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(kOnnxOpset);
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_domain(domain);
  for (const Tensor& input : inputs) {
    node.add_input("x" + std::to_string(node.input_size()));
    onnx::ValueInfoProto& info = *model.mutable_graph()->add_input();
    info.set_name(node.input(node.input_size() - 1));
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(static_cast<int32_t>(input.dtype()));
    for (int i = 0; i < input.shape().rank(); ++i) type.mutable_shape()->add_dim();
  }
  node.add_output("y");
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

inline std::vector<float> Values(const Tensor& tensor) {
  const auto span = tensor.span<float>();
  return {span.begin(), span.end()};
}

class Programs {
 protected:
  Programs() {
    RegisterCpuKernels(host_, 1);
    RegisterCudaKernels(device_);
  }

  absl::StatusOr<std::unique_ptr<ProgramRunner>> Compile(const onnx::ModelProto& model,
                                                         std::shared_ptr<CudaStream> stream) {
    const DeviceTarget target{device_, stream};
    auto program = CompileProgram(model, host_, &target);
    if (!program.ok()) return program.status();
    return std::make_unique<ProgramRunner>(*program, Buffer::Allocate, std::move(stream));
  }

  absl::StatusOr<std::vector<Tensor>> RunOnHost(const onnx::ModelProto& model,
                                                const std::vector<Tensor>& inputs) {
    auto program = CompileProgram(model, host_);
    if (!program.ok()) return program.status();
    return ProgramRunner(*program).Run(inputs, RunContext{});
  }

  KernelRegistry host_;
  KernelRegistry device_;
};

class DeviceProgramTest : public OnCudaDevices, protected Programs {
 protected:
  std::shared_ptr<CudaStream> OpenStream() { return *CudaStream::Open(*table(), 0); }
};

class StandInProgramTest : public testing::Test, protected Programs {
 protected:
  ~StandInProgramTest() override {
    FailCudaStandInAfter(-1);
    FailCudaStandInLateAfter(-1);
  }
  std::shared_ptr<CudaStream> OpenStream(uint64_t bytes = kStandInMemory) {
    return *CudaStream::Open(MakeCudaStandIn(1, bytes), 0);
  }
};

// exp(-x) on the device; ArgMax has no kernel there; both are fetched, and so is a value between.
inline onnx::ModelProto ThereAndBack() {
  GraphBuilder builder("there_and_back");
  const std::string x = builder.Input("x", DType::kFloat32, {-1});
  const std::string negated = builder.Op("Neg", {x});
  const std::string grown = builder.Op("Exp", {negated});
  builder.Output(negated);
  builder.Output(builder.Op("ArgMax", {grown}));
  builder.Output(builder.Op("Sqrt", {grown}));
  return *builder.Finish();
}

}  // namespace cohort
