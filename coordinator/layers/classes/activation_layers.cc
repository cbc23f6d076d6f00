// Layers that apply a function to each element, or along one axis.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

class ActivationLayer : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Require("activation");
    reader.ReadActivation(&activation_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    ASSIGN_OR_RETURN(TensorType type,
                     ActivatedType(activation_, call.settings.layer, call.shape()));
    return std::vector<TensorType>{std::move(type)};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    return {Activate(activation_, call.input(), target)};
  }

 private:
  Activation activation_;
};

// ReLU with bounds: x above `threshold`, at most `max_value`, and below the threshold a line of
// slope `negative_slope` through the threshold.
class ReLU : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    ObjectReader& config = reader.config;
    if (config.Given("max_value", false)) {
      double max_value = 0;
      config.Number("max_value", {.min = 0}, &max_value);
      max_value_ = max_value;
    }
    config.Number("negative_slope", {.min = 0}, &negative_slope_);
    config.Number("threshold", {.min = 0}, &threshold_);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const LayerValue& x = call.input();
    // If only a slope is given, Keras computes leaky_relu, whose gradient at 0 is the slope.
    if (threshold_ == 0 && !max_value_ && negative_slope_ > 0) {
      return {{target.graph.Op("LeakyRelu", {x.value},
                               {FloatAttribute("alpha", static_cast<float>(negative_slope_))}),
               "", x.channels_first}};
    }
    std::string y;
    if (threshold_ == 0) {
      y = nodes.Op("Relu", {x.value});
    } else {
      const std::string above = nodes.Op("Greater", {x.value, nodes.Number(threshold_)});
      y = nodes.Op("Where", {above, x.value, nodes.Number(0)});
    }
    if (max_value_) y = nodes.Op("Clip", {y, nodes.Number(0), nodes.Number(*max_value_)});
    if (negative_slope_ > 0) {
      // At the threshold the gradient is 0, as in TensorFlow.
      const std::string below = nodes.Op("Relu", {nodes.Sub(nodes.Number(threshold_), x.value)});
      y = nodes.Sub(y, nodes.Mul(below, nodes.Number(negative_slope_)));
    }
    return {{y, "", x.channels_first}};
  }

 private:
  std::optional<double> max_value_;
  double negative_slope_ = 0;
  double threshold_ = 0;
};

class LeakyReLU : public SameTypeLayer {
 public:
  // Keras 2 calls the slope alpha.
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.NumberOrOld("negative_slope", "alpha", {.min = 0}, &slope_);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    return {{target.graph.Op("LeakyRelu", {call.input().value},
                             {FloatAttribute("alpha", static_cast<float>(slope_))}),
             "", call.input().channels_first}};
  }

 private:
  double slope_ = 0.3;
};

class ELU : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Number("alpha", {.min = 0}, &alpha_);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    return {{target.graph.Op("Elu", {call.input().value},
                             {FloatAttribute("alpha", static_cast<float>(alpha_))}),
             "", call.input().channels_first}};
  }

 private:
  double alpha_ = 1;
};

class ThresholdedReLU : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Number("theta", {.min = 0}, &theta_);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    return {{target.graph.Op("ThresholdedRelu", {call.input().value},
                             {FloatAttribute("alpha", static_cast<float>(theta_))}),
             "", call.input().channels_first}};
  }

 private:
  double theta_ = 1;
};

// ReLU whose slope below 0 is trained: a slope for each element, or one that elements along some
// axes share.
class PReLU : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.Weight("alpha", &alpha_);
    if (reader.config.Given("shared_axes", false)) {
      reader.config.Ints("shared_axes", {.min = 1, .max = kRankMax}, 1, &shared_axes_);
    }
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    std::vector<int64_t> dims(call.shape().dims().begin(), call.shape().dims().end());
    for (const int64_t axis : shared_axes_) {
      if (axis > call.shape().rank()) {
        return WrongInput(call.settings.layer, call.shape(),
                          absl::StrCat("its shared axis ", axis, " is not one of theirs"));
      }
      dims[static_cast<size_t>(axis) - 1] = 1;
    }
    RETURN_IF_ERROR(plan.Add(call, "alpha", Shape(dims), alpha_).status());
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    return {{nodes.Op("PRelu", {ChannelsLast(call.input(), nodes), call.Variable("alpha")})}};
  }

 private:
  WeightRules alpha_{{.class_name = "Zeros"}};
  std::vector<int64_t> shared_axes_;
};

// Softmax along one axis or several. Elements that the mask, which is an argument of the call,
// hides have no weight in the sum.
class SoftmaxLayer : public SameTypeLayer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Ints("axis", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, 1,
                       &axes_);
    // If the mask hides a whole row, Keras up to 3.9 gives a uniform row, and later versions give
    // zeros.
    if (reader.Keras() >= KerasVersion{3, 10}) hidden_rows_are_zero_ = true;
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    for (const int64_t axis : axes_) {
      if (axis == 0 || axis > call.shape().rank() || axis < -call.shape().rank()) {
        return WrongInput(call.settings.layer, call.shape(),
                          absl::StrCat("its axis ", axis, " is not one of theirs"));
      }
    }
    return SameTypeLayer::Plan(call, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const LayerValue& input = call.input();
    const std::string x = ChannelsLast(input, nodes);
    if (input.mask.empty()) {
      const bool is_last = axes_.size() == 1 && (axes_[0] == -1 || axes_[0] == call.shape().rank());
      return {{AddSoftmax(x, nodes), is_last ? x : ""}};
    }
    const std::string seen = nodes.Cast(input.mask, DType::kFloat32);
    const std::string hidden = nodes.Sub(nodes.Number(1), seen);
    std::string y = AddSoftmax(nodes.Add(x, nodes.Mul(hidden, nodes.Number(-1e9))), nodes);
    if (hidden_rows_are_zero_) y = nodes.Mul(y, nodes.Reduce("ReduceMax", seen, axes_));
    return {{y}};
  }

 private:
  std::string AddSoftmax(const std::string& x, const Nodes& nodes) const {
    if (axes_.size() == 1) {
      return nodes.graph().Op("Softmax", {x}, {IntAttribute("axis", axes_[0])});
    }
    return nodes.Op("Exp", {nodes.Sub(x, nodes.Reduce("ReduceLogSumExp", x, axes_))});
  }

  std::vector<int64_t> axes_ = {-1};
  bool hidden_rows_are_zero_ = false;
};

}  // namespace

void AddActivationLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"Activation", MakeLayer<ActivationLayer>, MaskRule::kPass});
  classes.push_back({"ReLU", MakeLayer<ReLU>, MaskRule::kPass});
  classes.push_back({"LeakyReLU", MakeLayer<LeakyReLU>, MaskRule::kPass});
  classes.push_back({"PReLU", MakeLayer<PReLU>, MaskRule::kPass});
  classes.push_back({"ELU", MakeLayer<ELU>, MaskRule::kPass});
  classes.push_back({"ThresholdedReLU", MakeLayer<ThresholdedReLU>, MaskRule::kPass});
  classes.push_back({"Softmax", MakeLayer<SoftmaxLayer>, MaskRule::kPass});
}

}  // namespace cohort
