// Layers that only move or repeat elements.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

class Flatten : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.DataFormat(&channels_first_);
    reader.FloatPolicy();
  }

  // Plans the flat shape. An example that is one number becomes [1], as in Keras.
  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    return std::vector<TensorType>{{.shape = Shape({call.shape().num_elements()})}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    // An example with one dimension is flat already.
    if (call.shape().rank() == 1) return {{call.input().value}};
    const Nodes nodes(target.graph);
    std::string x = ChannelsLast(call.input(), nodes);
    if (channels_first_ && call.shape().rank() > 1) {
      // If the channels come first, Keras moves them behind the other axes before it flattens.
      std::vector<int64_t> perm = {0};
      for (int64_t i = 2; i <= call.shape().rank(); ++i) perm.push_back(i);
      perm.push_back(1);
      x = nodes.Transpose(x, perm);
    }
    return {{target.graph.Op("Flatten", {x}, {IntAttribute("axis", 1)})}};
  }

 private:
  bool channels_first_ = false;
};

// Gives the elements of an example another shape in the same order. One dimension may be -1; its
// size follows from the others.
class ReshapeLayer : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    ObjectReader& config = reader.config;
    config.Require("target_shape");
    config.Ints("target_shape", {.min = -1, .max = kDimMax}, 0, &target_shape_);
    // Only one dimension of the target shape can be computed from the other dimensions.
    const auto count = [&](int64_t dim) {
      return std::count(target_shape_.begin(), target_shape_.end(), dim);
    };
    if (target_shape_.size() <= kRankMax && count(0) == 0 && count(-1) <= 1) return;
    config.AddError("target_shape", absl::StrCat("is ", JsonExcerpt(*config.Find("target_shape")),
                                                 "; it must be at most ", kRankMax,
                                                 " numbers from 1 on, of which one may be -1"));
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    std::vector<int64_t> dims = target_shape_;
    const auto open = std::find(dims.begin(), dims.end(), -1);
    int64_t known = 1;
    bool fits = true;
    for (const int64_t dim : dims) {
      if (dim > 0) fits = fits && !__builtin_mul_overflow(known, dim, &known);
    }
    const int64_t elements = call.shape().num_elements();
    // `known` is the product of all dimensions except the one that the target shape leaves open.
    fits = fits && elements % known == 0;
    if (fits && open != dims.end()) *open = elements / known;
    if (fits && Shape(dims).num_elements() == elements) {
      return std::vector<TensorType>{{.shape = Shape(dims)}};
    }
    return WrongInput(call.settings.layer, call.shape(),
                      absl::StrCat("its target_shape does not hold their ", elements, " elements"));
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    return {{nodes.ReshapeExamples(ChannelsLast(call.input(), nodes), call.outputs[0].shape)}};
  }

 private:
  std::vector<int64_t> target_shape_;
};

// Reorders the dimensions of examples, which are numbered from 1.
class Permute : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Require("dims");
    reader.config.Ints("dims", {.min = 1, .max = kRankMax}, 0, &dims_);
    std::vector<int64_t> sorted = dims_;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] == static_cast<int64_t>(i) + 1) continue;
      return reader.config.AddError("dims", "must have each number from 1 on once");
    }
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    if (dims_.size() != static_cast<size_t>(call.shape().rank())) {
      return WrongInput(call.settings.layer, call.shape(),
                        absl::StrCat("it reorders ", dims_.size(), " dimensions"));
    }
    std::vector<int64_t> dims;
    for (const int64_t dim : dims_) dims.push_back(call.shape().dim(static_cast<int>(dim) - 1));
    return std::vector<TensorType>{{.shape = Shape(dims)}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    std::vector<int64_t> perm = {0};
    perm.insert(perm.end(), dims_.begin(), dims_.end());
    return {{nodes.Transpose(ChannelsLast(call.input(), nodes), perm)}};
  }

 private:
  std::vector<int64_t> dims_;
};

// Repeats each example n times, as n steps.
class RepeatVector : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    reader.config.Require("n");
    reader.config.Int("n", {.min = 1, .max = kDimMax}, &n_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    if (call.shape().rank() != 1 || call.shape().num_elements() > kElementsMax / n_) {
      return WrongInput(call.settings.layer, call.shape(),
                        "it repeats vectors, up to 2^31 elements in all");
    }
    return std::vector<TensorType>{{.shape = Shape({n_, call.shape().dim(0)})}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    return {{nodes.Op("Tile", {nodes.Unsqueeze(call.input().value, 1), nodes.Ints({1, n_, 1})})}};
  }

 private:
  int64_t n_ = 1;
};

}  // namespace

void AddReshapingLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"Flatten", MakeLayer<Flatten>});
  classes.push_back({"Reshape", MakeLayer<ReshapeLayer>});
  classes.push_back({"Permute", MakeLayer<Permute>});
  classes.push_back({"RepeatVector", MakeLayer<RepeatVector>});
}

}  // namespace cohort
