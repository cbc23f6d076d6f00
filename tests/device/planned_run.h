#pragma once

// An operator once more, between others and under a memory plan. Its float32 inputs come from nodes
// in front of it, a node behind it writes over each of them, and another one reads its outputs. The
// plan is recorded with inputs of other sizes, for which a kernel may go another way (a clip that
// hands its input on). The bits have to be those of the operator alone.

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/device/backends.h"

namespace cohort {

class PlannedRun {
 public:
  // `model` is of one node; `expected` are its outputs for `inputs`. An optional input that the
  // node lacks has no value.
  PlannedRun(const onnx::ModelProto& model, const std::vector<Tensor>& inputs,
             const std::vector<Tensor>& expected)
      : inputs_(inputs), expected_(expected) {
    Between(model);
  }

  void Check(const Backend& backend, const RunContext& context) const {
    for (const float factor : {0.0f, 1000.0f}) {
      auto runner = MakeRunner(backend, model_);
      ASSERT_TRUE(runner.ok()) << runner.status();
      // Records; an operator may refuse such values.
      (void)(*runner)->Run(Scaled(factor), context);
      const auto outputs = (*runner)->Run(Scaled(1), context);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      for (size_t i = 0; i < expected_.size(); ++i) {
        ASSERT_EQ((*outputs)[i].TypeString(), expected_[i].TypeString());
        EXPECT_EQ(std::memcmp((*outputs)[i].raw(), expected_[i].raw(), expected_[i].num_bytes()), 0)
            << "output " << i << " under a plan that was recorded with inputs times " << factor;
      }
    }
  }

 private:
  static bool IsFloat(const Tensor& tensor) { return tensor.dtype() == DType::kFloat32; }

  // Returns the inputs that have a value times a factor.
  std::vector<Tensor> Scaled(float factor) const {
    std::vector<Tensor> scaled;
    for (const Tensor& input : inputs_) {
      if (!input.has_value()) continue;
      scaled.push_back(IsFloat(input) ? input.Clone() : input);
      if (!IsFloat(input)) continue;
      float* const values = scaled.back().mutable_data<float>();
      for (int64_t i = 0; i < input.num_elements(); ++i) values[i] *= factor;
    }
    return scaled;
  }

  // A device takes only what is known to be of its types.
  void Declare(const std::string& name, const Tensor& like) {
    onnx::ValueInfoProto& value = *model_.mutable_graph()->add_value_info();
    value.set_name(name);
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(static_cast<int32_t>(like.dtype()));
    for (const int64_t dim : like.shape().dims()) {
      type.mutable_shape()->add_dim()->set_dim_value(dim);
    }
  }

  std::string Negated(const std::string& value, const Tensor& like) {
    onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_name("negated_" + value);
    node.set_op_type("Neg");
    node.add_input(value);
    node.add_output("negated_" + value);
    Declare(node.output(0), like);
    return node.output(0);
  }

  void Between(const onnx::ModelProto& model) {
    model_ = model;
    model_.mutable_graph()->clear_node();
    model_.mutable_graph()->clear_output();
    onnx::NodeProto node = model.graph().node(0);
    for (int i = 0; i < node.input_size(); ++i) {
      const Tensor& input = inputs_[static_cast<size_t>(i)];
      if (!IsFloat(input)) continue;
      node.set_input(i, Negated(Negated(node.input(i), input), input));
    }
    *model_.mutable_graph()->add_node() = node;
    std::vector<std::string> written_over;
    for (int i = 0; i < node.input_size(); ++i) {
      const Tensor& input = inputs_[static_cast<size_t>(i)];
      if (IsFloat(input)) written_over.push_back(Negated(node.input(i), input));
    }
    for (int i = 0; i < node.output_size(); ++i) {
      const Tensor& output = expected_[static_cast<size_t>(i)];
      std::string value = node.output(i);
      if (IsFloat(output)) {
        Declare(value, output);
        value = Negated(Negated(value, output), output);
      }
      model_.mutable_graph()->add_output()->set_name(value);
    }
    for (const std::string& value : written_over) {
      model_.mutable_graph()->add_output()->set_name(value);
    }
  }

  const std::vector<Tensor> inputs_;
  const std::vector<Tensor> expected_;
  onnx::ModelProto model_;
};

}  // namespace cohort
