// BatchNormalization. Layers that normalize each example by itself are in example_normalization.cc.
//
// In training, BatchNormalization normalizes by the mean and variance of the batch, and moves the
// moving statistics towards them by Keras's formula: moving = moving * momentum + batch * (1 -
// momentum), with the population variance. Evaluation and prediction normalize by the moving
// statistics.
//
// With `renorm`, training is Batch Renormalization (Ioffe, 2017): what the batch normalizes is then
// scaled and shifted towards what the renorm statistics would give, another pair of moving
// statistics.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "coordinator/layers/classes/image.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

// The variance that moves the moving variance. Releases of Keras multiply the batch's population
// variance by n / (n - correction), where n is the number of elements of a channel.
enum class VarianceRule { kPopulation, kFused, kStandalone };

struct BatchNormSettings {
  // The axes of the channels, where axis 0 is the batch. Keras 2 takes several, each combination of
  // whose positions is then a channel.
  std::vector<int64_t> axes = {-1};
  double momentum = 0.99;  // the fraction of the moving statistics that a step keeps
  double epsilon = 1e-3;
  bool center = true;         // true: the layer has beta
  bool scale = true;          // true: the layer has gamma
  bool synchronized = false;  // true: the statistics are those of all replicas of a step
  VarianceRule variance = VarianceRule::kPopulation;
  bool renorm = false;
  double renorm_momentum = 0.99;  // the fraction of the renorm statistics that a step keeps
  // Bounds of the factor r and of the shift d of renorm; absent: no bound.
  std::optional<double> rmin = {};
  std::optional<double> rmax = {};
  std::optional<double> dmax = {};
};

void ReadClipping(ObjectReader& config, BatchNormSettings& settings) {
  const auto bound = [&config](const char* key, std::optional<double>* out) {
    if (!config.Given(key, out->has_value())) return;
    double value = out->value_or(0);
    config.Number(key, {.min = 0}, &value);
    *out = value;
  };
  bound("rmax", &settings.rmax);
  bound("rmin", &settings.rmin);
  bound("dmax", &settings.dmax);
  if (settings.rmin.value_or(0) > settings.rmax.value_or(HUGE_VAL)) {
    config.AddError("rmax",
                    absl::StrCat("is ", *settings.rmax, ", less than rmin ", *settings.rmin));
  }
}

// A value of the graph with shape [N, channels, ...] and `rank` axes.
struct ChannelledValue {
  std::string value;
  int64_t channels = 1;
  int64_t rank = 2;
  // The shape of the layer's variables; empty: a vector [channels].
  std::vector<int64_t> variable_dims = {};
};

// Adds the nodes of one call of a BatchNormalization. Lives for one call. Thread-compatible.
class BatchNormNodes {
 public:
  BatchNormNodes(const BatchNormSettings& settings, const BuiltCall& call, const ChannelledValue& x,
                 const LayerTarget& target)
      : settings_(settings),
        call_(call),
        x_(x),
        nodes_(target.graph),
        state_(target.state),
        mean_(call.Variable("moving_mean")),
        variance_(call.Variable("moving_variance")) {}

  // Adds a normalization by the moving statistics.
  std::string Evaluate() {
    return nodes_.graph().Op("BatchNormalization",
                             {x_.value, Gamma(), Beta(), Now(mean_), Now(variance_)}, {Epsilon()});
  }

  // Adds a normalization by the statistics of this replica's batch, and the new moving statistics,
  // as one operator.
  std::string TrainFused() {
    const auto outputs = nodes_.graph().OpN(
        "BatchNormalization", {x_.value, Gamma(), Beta(), Now(mean_), Now(variance_)}, 3,
        {Epsilon(), FloatAttribute("momentum", static_cast<float>(settings_.momentum)),
         IntAttribute("training_mode", 1)});
    Keep(mean_, outputs[1]);
    Keep(variance_, Corrected(Now(variance_), outputs[2]));
    return outputs[0];
  }

  // The mean and the population variance of each channel, as vectors.
  struct Moments {
    std::string mean;
    std::string variance;
  };

  // Adds a normalization by `batch`, and the new moving statistics.
  std::string Train(const Moments& batch) {
    if (settings_.renorm) return Renormalize(batch);
    Move(mean_, batch.mean, settings_.momentum);
    Move(variance_, batch.variance, settings_.momentum);
    return Normalize(batch, Gamma(), Beta());
  }

  // Returns the moments of this replica's batch.
  Moments OfBatch() {
    const std::vector<int64_t> axes = AxesOfSums();
    const std::string mean = nodes_.ReduceAway("ReduceMean", x_.value, axes);
    const std::string distance = nodes_.Sub(x_.value, AsChannels(mean));
    return {mean, nodes_.ReduceAway("ReduceMean", nodes_.Mul(distance, distance), axes)};
  }

  // Returns the moments of the elements that the mask marks. `marks` is float32, broadcasts to x,
  // and is 1 for marked elements.
  Moments OfMarked(const std::string& marks) {
    const std::vector<int64_t> axes = AxesOfSums();
    const auto sum = [&](const std::string& value) {
      return nodes_.ReduceAway("ReduceSum", nodes_.Mul(value, marks), axes);
    };
    const std::string ones = nodes_.Add(nodes_.Mul(x_.value, nodes_.Number(0)), nodes_.Number(1));
    const std::string count = sum(ones);
    const std::string mean = nodes_.Div(sum(x_.value), count);
    const std::string distance = nodes_.Sub(x_.value, AsChannels(mean));
    return {mean, nodes_.Div(sum(nodes_.Mul(distance, distance)), count)};
  }

  // Returns the moments of the batches of all replicas of the step. Replicas may have different
  // numbers of examples, so the sums, the sums of squares and the number of elements travel
  // together in one AllReduce.
  Moments OfAllReplicas() {
    const std::vector<int64_t> axes = AxesOfSums();
    const std::string sum = nodes_.ReduceAway("ReduceSum", x_.value, axes);
    const std::string squares =
        nodes_.ReduceAway("ReduceSum", nodes_.Mul(x_.value, x_.value), axes);
    const std::string all =
        nodes_.graph().Op("AllReduce", {nodes_.Concat({sum, squares, CountOfChannel()}, 0)},
                          {StringAttribute("reduction", "sum")}, kCohortDomain);
    const std::string count = Part(all, 2 * x_.channels, 1);
    const std::string mean = nodes_.Div(Part(all, 0, x_.channels), count);
    const std::string mean_square = nodes_.Div(Part(all, x_.channels, x_.channels), count);
    // The population variance is E[x^2] - E[x]^2.
    return {mean, nodes_.Sub(mean_square, nodes_.Mul(mean, mean))};
  }

 private:
  onnx::AttributeProto Epsilon() const {
    return FloatAttribute("epsilon", static_cast<float>(settings_.epsilon));
  }
  // If the layer has no gamma or beta, 1 or 0 takes its place, because ONNX's operator needs both.
  std::string Gamma() { return settings_.scale ? Flat(call_.Variable("gamma")) : Filled(1); }
  std::string Beta() { return settings_.center ? Flat(call_.Variable("beta")) : Filled(0); }

  // Returns the variable's current value, as a vector: the value that an earlier use of the layer
  // in the same step computed, if there is one.
  std::string Now(const std::string& variable) const {
    const auto found = state_.find(variable);
    return Flat(found == state_.end() ? variable : found->second);
  }
  // Makes a vector the variable's new value.
  void Keep(const std::string& variable, const std::string& value) {
    state_[variable] = x_.variable_dims.empty() ? value : nodes_.Reshape(value, x_.variable_dims);
  }
  std::string Flat(const std::string& value) const {
    return x_.variable_dims.empty() ? value : nodes_.Reshape(value, {x_.channels});
  }

  std::string Filled(float value) {
    return nodes_.Floats(std::vector<float>(static_cast<size_t>(x_.channels), value),
                         {x_.channels});
  }

  // Returns the new moving variance by the rule of the file's version of Keras. `before` is the old
  // one, `moved` the one that the population variance gives.
  std::string Corrected(const std::string& before, const std::string& moved) {
    if (settings_.variance == VarianceRule::kPopulation) return moved;
    const std::string kept = nodes_.Mul(before, nodes_.Number(settings_.momentum));
    const std::string count = CountOfChannel();
    const bool fused = settings_.variance == VarianceRule::kFused;
    const std::string divisor = nodes_.Sub(count, nodes_.Number(fused ? 1 : 1 + settings_.epsilon));
    // The variance of a single element is 0, so its factor does not matter.
    const std::string factor =
        nodes_.Div(count, fused ? nodes_.Op("Max", {divisor, nodes_.Number(1)}) : divisor);
    return nodes_.Add(kept, nodes_.Mul(nodes_.Sub(moved, kept), factor));
  }

  // Returns all axes except axis 1, the channels.
  std::vector<int64_t> AxesOfSums() const {
    std::vector<int64_t> axes(static_cast<size_t>(x_.rank) - 1);
    std::iota(axes.begin(), axes.end(), 1);
    axes[0] = 0;
    return axes;
  }

  // Returns the number of elements of one channel in this replica's batch, as float32[1].
  std::string CountOfChannel() {
    const std::string size = nodes_.Cast(nodes_.Op("Size", {x_.value}), DType::kFloat32);
    return nodes_.Reshape(nodes_.Div(size, nodes_.Number(static_cast<double>(x_.channels))), {1});
  }

  // Returns `count` elements of the vector `value`, from index `first` on.
  std::string Part(const std::string& value, int64_t first, int64_t count) {
    std::vector<int64_t> indices(static_cast<size_t>(count));
    std::iota(indices.begin(), indices.end(), first);
    return nodes_.graph().Op("Gather", {value, nodes_.Ints(indices)}, {IntAttribute("axis", 0)});
  }

  // Moves the variable towards a value: variable * momentum + towards * (1 - momentum).
  void Move(const std::string& variable, const std::string& towards, double momentum) {
    const std::string kept = nodes_.Mul(Now(variable), nodes_.Number(momentum));
    Keep(variable, nodes_.Add(kept, nodes_.Mul(towards, nodes_.Number(1 - momentum))));
  }

  // Returns the standard deviation that Keras divides by: sqrt(variance + epsilon).
  std::string Deviation(const std::string& variance) {
    return nodes_.Op("Sqrt", {nodes_.Add(variance, nodes_.Number(settings_.epsilon))});
  }

  // Computes x * factor + offset, with factor = gamma / sqrt(variance + epsilon) and offset = beta
  // - mean * factor.
  std::string Normalize(const Moments& moments, const std::string& gamma, const std::string& beta) {
    const std::string factor = nodes_.Div(gamma, Deviation(moments.variance));
    const std::string offset = nodes_.Sub(beta, nodes_.Mul(moments.mean, factor));
    return nodes_.Add(nodes_.Mul(x_.value, AsChannels(factor)), AsChannels(offset));
  }

  // Computes gamma * (n * r + d) + beta, where n is the normalized x, r the deviation of the batch
  // over that of the renorm statistics, and d the distance of the batch's mean from theirs, in
  // their deviations. As in Keras, no gradient flows through r and d, and the moving variance
  // follows from the moving deviation.
  std::string Renormalize(const Moments& batch) {
    const auto bounded = [&](const char* op, const std::string& value, double bound) {
      return nodes_.Op(op, {value, nodes_.Number(bound)});
    };
    const std::string deviation = Deviation(batch.variance);
    const std::string renorm_mean = call_.Variable("renorm_mean");
    const std::string renorm_stddev = call_.Variable("renorm_stddev");
    const std::string divisor = bounded("Max", Now(renorm_stddev), std::sqrt(settings_.epsilon));
    std::string r = nodes_.Div(deviation, divisor);
    std::string d = nodes_.Div(nodes_.Sub(batch.mean, Now(renorm_mean)), divisor);
    if (settings_.rmin) r = bounded("Max", r, *settings_.rmin);
    if (settings_.rmax) r = bounded("Min", r, *settings_.rmax);
    if (settings_.dmax) d = bounded("Max", bounded("Min", d, *settings_.dmax), -*settings_.dmax);
    r = nodes_.graph().Op("StopGradient", {r}, {}, kCohortDomain);
    d = nodes_.graph().Op("StopGradient", {d}, {}, kCohortDomain);
    const std::string gamma = Gamma();
    const std::string y =
        Normalize(batch, nodes_.Mul(r, gamma), nodes_.Add(nodes_.Mul(d, gamma), Beta()));
    Move(renorm_mean, batch.mean, settings_.renorm_momentum);
    Move(renorm_stddev, deviation, settings_.renorm_momentum);
    Move(mean_, batch.mean, settings_.momentum);
    const std::string moving_stddev = call_.Variable("moving_stddev");
    Move(moving_stddev, deviation, settings_.momentum);
    const std::string moved = Now(moving_stddev);
    Keep(variance_, nodes_.Op("Relu", {nodes_.Sub(nodes_.Mul(moved, moved),
                                                  nodes_.Number(settings_.epsilon))}));
    return y;
  }

  // Returns a vector of one number per channel, reshaped to broadcast over the axes of x after the
  // channels.
  std::string AsChannels(const std::string& value) {
    if (x_.rank == 2) return value;
    std::vector<int64_t> dims(static_cast<size_t>(x_.rank) - 1, 1);
    dims[0] = x_.channels;
    return nodes_.Reshape(value, dims);
  }

  const BatchNormSettings& settings_;
  const BuiltCall& call_;
  const ChannelledValue& x_;
  const Nodes nodes_;
  StateValues& state_;
  const std::string mean_;
  const std::string variance_;
};

class BatchNormalization : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    ReadAxes(reader);
    config.Number("momentum", {.min = 0, .max = 1}, &settings_.momentum);
    config.Number("epsilon", {.min = 0}, &settings_.epsilon);
    config.Bool("center", &settings_.center);
    config.Bool("scale", &settings_.scale);
    reader.Weight("beta", &beta_);
    reader.Weight("gamma", &gamma_);
    reader.Initializer("moving_mean_initializer", &moving_mean_.initializer);
    reader.Initializer("moving_variance_initializer", &moving_variance_.initializer);
    config.Bool("synchronized", &settings_.synchronized);
    const KerasVersion& keras = reader.Keras();
    ReadRenorm(config, keras);
    is_keras2_ = keras.IsKeras2();
    is_standalone_ = keras >= KerasVersion{2, 1} && keras < KerasVersion{2, 4};
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const Shape& input = call.shape();
    const int rank = input.rank();
    if (rank < 1) {
      return WrongInput(call.settings.layer, input,
                        "it needs at least one dimension beside the batch");
    }
    const std::vector<int> axes = ChannelAxes(input);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] >= 1 && axes[i] <= rank && (i == 0 || axes[i] > axes[i - 1])) continue;
      return WrongInput(call.settings.layer, input,
                        absl::StrCat("its axis ", settings_.axes[i],
                                     " is not one of theirs, or not in ascending order"));
    }
    const Shape channels(VariableDims(input));
    // Keras's order: gamma and beta are trained, the moving statistics are not.
    if (settings_.scale) RETURN_IF_ERROR(plan.Add(call, "gamma", channels, gamma_).status());
    if (settings_.center) RETURN_IF_ERROR(plan.Add(call, "beta", channels, beta_).status());
    std::vector<std::pair<const char*, const WeightRules*>> statistics = {
        {"moving_mean", &moving_mean_}, {"moving_variance", &moving_variance_}};
    if (settings_.renorm) {
      statistics.push_back({"moving_stddev", &moving_stddev_});
      statistics.push_back({"renorm_mean", &moving_mean_});
      statistics.push_back({"renorm_stddev", &moving_stddev_});
    }
    for (const auto& [name, initializer] : statistics) {
      ASSIGN_OR_RETURN(VariableSpec* const moving, plan.Add(call, name, channels, *initializer));
      moving->trainable = false;
      moving->aggregation = proto::AGGREGATION_MEAN;  // Keras averages moving statistics
    }
    return std::vector<TensorType>{{.shape = input}};
  }

  // The operator needs the channels at axis 1. Examples that are not images are reshaped to rows of
  // channels: a channel's statistics do not depend on the axes before the channels, so these axes
  // are merged with the batch.
  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const LayerValue& x = call.input();
    const Shape& shape = call.shape();
    if (settings_.axes.size() > 1) return {BuildSeveral(call, target)};
    const int axis = ChannelAxes(shape)[0];
    const int64_t channels = shape.dim(axis - 1);
    const int rank = shape.rank() + 1;
    const bool is_last = axis == shape.rank();
    if (shape.rank() == 1) return {{AddNorm(call, {x.value, channels, 2}, target)}};
    if (is_last && shape.rank() == 3) {
      const std::string y = AddNorm(call, {ChannelsFirst(x, nodes), channels, rank}, target);
      return {{y, "", /*channels_first=*/true}};
    }
    if (is_last && !NeedsMask(call, target)) {
      const std::string rows = nodes.Reshape(ChannelsLast(x, nodes), {-1, channels});
      return {{nodes.ReshapeExamples(AddNorm(call, {rows, channels, 2}, target), shape)}};
    }
    const std::string turned = nodes.Move(ChannelsLast(x, nodes), {rank, axis, 1});
    return {{nodes.Move(AddNorm(call, {turned, channels, rank}, target), {rank, 1, axis})}};
  }

 private:
  // Reads renorm, which Keras 3 has; Keras 2 writes its parameters even if it is off. These keys
  // are recorded only if renorm is on, so that the record of other layers stays as it is.
  void ReadRenorm(ObjectReader& config, const KerasVersion& keras) {
    const auto* const renorm = config.Find("renorm");
    const bool is_on = config.recording() ? settings_.renorm : renorm != nullptr && *renorm == true;
    if (!is_on || keras.IsKeras2()) {
      config.OnlyNeutral("renorm", false);
      config.OnlyNeutral("renorm_clipping", nullptr);
      return config.Ignore("renorm_momentum");
    }
    config.Bool("renorm", &settings_.renorm);
    config.Number("renorm_momentum", {.min = 0, .max = 1}, &settings_.renorm_momentum);
    config.Object("renorm_clipping", ReadClipping, &settings_);
    // The deviation begins as the root of the variance.
    moving_stddev_ = moving_variance_;
    KerasInitializerSpec& initializer = moving_stddev_.initializer;
    if (initializer.class_name == "Constant") {
      initializer.a = std::sqrt(initializer.a);
    } else if (initializer.class_name != "Ones" && initializer.class_name != "Zeros") {
      config.AddError("moving_variance_initializer",
                      absl::StrCat("is ", initializer.class_name,
                                   "; with renorm it must be Zeros, Ones or Constant"));
    }
  }

  void ReadAxes(LayerReader& reader) {
    const auto* const value = reader.config.Find("axis");
    const bool is_list = value != nullptr && value->is_array() && value->size() > 1;
    if (is_list && reader.Keras().IsKeras2()) {
      return reader.config.Ints("axis", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax},
                                1, &settings_.axes);
    }
    reader.Axis(&settings_.axes[0]);
  }

  // Returns the axes of the channels, where axis 0 is the batch.
  std::vector<int> ChannelAxes(const Shape& shape) const {
    std::vector<int> axes;
    for (const int64_t axis : settings_.axes) {
      axes.push_back(static_cast<int>(axis < 0 ? axis + shape.rank() + 1 : axis));
    }
    return axes;
  }

  // Returns the shape of the variables. For one axis it is a vector; for several axes it is the
  // shape of an example, with 1 for the batch and each axis that is not one of these.
  std::vector<int64_t> VariableDims(const Shape& shape) const {
    const std::vector<int> axes = ChannelAxes(shape);
    if (axes.size() == 1) return {shape.dim(axes[0] - 1)};
    std::vector<int64_t> dims(static_cast<size_t>(shape.rank()) + 1, 1);
    for (const int axis : axes) dims[static_cast<size_t>(axis)] = shape.dim(axis - 1);
    return dims;
  }

  // Adds a normalization with several axes of channels. The axes are moved behind the batch and
  // merged into one.
  LayerValue BuildSeveral(const BuiltCall& call, LayerTarget& target) const {
    const Nodes nodes(target.graph);
    const Shape& shape = call.shape();
    const std::vector<int> axes = ChannelAxes(shape);
    std::vector<int64_t> perm = {0};
    perm.insert(perm.end(), axes.begin(), axes.end());
    for (int i = 1; i <= shape.rank(); ++i) {
      if (std::count(axes.begin(), axes.end(), i) == 0) perm.push_back(i);
    }
    std::vector<int64_t> back(perm.size());
    std::vector<int64_t> turned_dims;
    for (size_t i = 0; i < perm.size(); ++i) {
      back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
      if (i > 0) turned_dims.push_back(shape.dim(static_cast<int>(perm[i]) - 1));
    }
    int64_t channels = 1;
    for (size_t i = 0; i < axes.size(); ++i) channels *= turned_dims[i];
    std::vector<int64_t> joined = {-1, channels};
    joined.insert(joined.end(), turned_dims.begin() + static_cast<std::ptrdiff_t>(axes.size()),
                  turned_dims.end());
    const std::string turned = nodes.Transpose(ChannelsLast(call.input(), nodes), perm);
    const ChannelledValue x{nodes.Reshape(turned, joined), channels,
                            static_cast<int64_t>(joined.size()), VariableDims(shape)};
    const std::string y = nodes.ReshapeExamples(AddNorm(call, x, target), Shape(turned_dims));
    return {nodes.Transpose(y, back)};
  }

  // Returns whether Keras 2 would compute the layer by its fused kernel, which takes images only
  // and no mask.
  bool IsFused(const Shape& shape) const {
    const int axis = ChannelAxes(shape)[0];
    return is_keras2_ && !is_standalone_ && settings_.axes.size() == 1 &&
           (shape.rank() == 3 || shape.rank() == 4) && (axis == 1 || axis == shape.rank());
  }

  bool Trains(const BuiltCall& call, const LayerTarget& target) const {
    // Returns whether the layer normalizes by the batch. Keras uses the moving statistics, and
    // keeps them, if the layer is not trained.
    return target.mode == ModelMode::kTraining && call.settings.trainable;
  }

  bool NeedsMask(const BuiltCall& call, const LayerTarget& target) const {
    return Trains(call, target) && !call.input().mask.empty() && !IsFused(call.shape()) &&
           settings_.axes.size() == 1;
  }

  std::string AddNorm(const BuiltCall& call, const ChannelledValue& x, LayerTarget& target) const {
    BatchNormSettings settings = settings_;
    if (IsFused(call.shape())) settings.variance = VarianceRule::kFused;
    if (is_standalone_) settings.variance = VarianceRule::kStandalone;
    BatchNormNodes norm(settings, call, x, target);
    if (!Trains(call, target)) return norm.Evaluate();
    if (NeedsMask(call, target)) {
      const Nodes nodes(target.graph);
      const std::string marks = nodes.Cast(call.input().mask, DType::kFloat32);
      // The mask has all axes of the input but the last one, of which it gets a 1. Then the
      // channels move to axis 1, as those of x.
      const int rank = call.shape().rank() + 1;
      return norm.Train(norm.OfMarked(
          nodes.Move(nodes.Unsqueeze(marks, -1), {rank, ChannelAxes(call.shape())[0], 1})));
    }
    if (settings.synchronized) return norm.Train(norm.OfAllReplicas());
    return settings.renorm ? norm.Train(norm.OfBatch()) : norm.TrainFused();
  }

  bool is_keras2_ = false;
  bool is_standalone_ = false;
  BatchNormSettings settings_;
  WeightRules beta_{{.class_name = "Zeros"}};
  WeightRules gamma_{{.class_name = "Ones"}};
  WeightRules moving_mean_{{.class_name = "Zeros"}};
  WeightRules moving_variance_{{.class_name = "Ones"}};
  WeightRules moving_stddev_;  // with renorm: that of moving_stddev and renorm_stddev
};

}  // namespace

void AddNormalizationLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"BatchNormalization", MakeLayer<BatchNormalization>, MaskRule::kPass});
}

}  // namespace cohort
