// Attention: MultiHeadAttention and GroupedQueryAttention, which have weights for each head, and
// Attention and AdditiveAttention, which compare their inputs as they are.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "coordinator/layers/penalty.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

constexpr double kHidden = -1e9;  // the number that Keras adds to the score of a hidden key

// Returns the input of the call that is passed under one of these argument names, or null.
const LayerValue* FindInput(const BuiltCall& call, std::initializer_list<const char*> arguments) {
  for (const char* argument : arguments) {
    const std::vector<size_t> found = call.settings.Inputs(argument);
    if (!found.empty()) return &call.inputs[found[0]];
  }
  return nullptr;
}

const TensorType* FindType(const PlannedCall& call, std::initializer_list<const char*> arguments) {
  for (const char* argument : arguments) {
    const std::vector<size_t> found = call.settings.Inputs(argument);
    if (!found.empty()) return &call.inputs[found[0]];
  }
  return nullptr;
}

// Returns a float32 constant [queries,keys] with 1 where the key's step is not later than the
// query's.
std::string CausalMask(int64_t queries, int64_t keys, const Nodes& nodes) {
  std::vector<float> seen(static_cast<size_t>(queries * keys), 0);
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j <= std::min(i, keys - 1); ++j)
      seen[static_cast<size_t>(i * keys + j)] = 1;
  }
  return nodes.Floats(seen, Shape({queries, keys}));
}

// Returns a float32 constant [queries,keys] with 1 where a query and a key are less than `window`
// steps apart.
std::string WindowMask(int64_t queries, int64_t keys, int64_t window, const Nodes& nodes) {
  std::vector<float> seen(static_cast<size_t>(queries * keys), 0);
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = std::max<int64_t>(i - window + 1, 0); j < std::min(i + window, keys); ++j) {
      seen[static_cast<size_t>(i * keys + j)] = 1;
    }
  }
  return nodes.Floats(seen, Shape({queries, keys}));
}

// Multiplies two float32 masks. Either may be "" (no mask), and the other is then the result.
std::string Both(const std::string& a, const std::string& b, const Nodes& nodes) {
  if (a.empty()) return b;
  return b.empty() ? a : nodes.Mul(a, b);
}

std::string Softmax(const std::string& scores, const Nodes& nodes) {
  return nodes.graph().Op("Softmax", {scores}, {IntAttribute("axis", -1)});
}

std::string Hide(const std::string& scores, const std::string& seen, const Nodes& nodes) {
  if (seen.empty()) return scores;
  const std::string hidden = nodes.Sub(nodes.Number(1), seen);
  return nodes.Add(scores, nodes.Mul(hidden, nodes.Number(kHidden)));
}

// Replaces each hidden score by the same number, so that hidden scores have no gradient.
std::string Replace(const std::string& scores, const std::string& seen, const Nodes& nodes) {
  if (seen.empty()) return scores;
  constexpr double kLowest = -0.7 * 3.4028234663852886e38;  // Keras 3's number for float32
  return nodes.Op("Where", {nodes.Cast(seen, DType::kBool), scores, nodes.Number(kLowest)});
}

// An input with heads. Its dimensions are split into leading ones, over which attention is
// repeated, and attended ones.
struct HeadInput {
  const LayerValue* value;
  std::vector<int64_t> leading;   // dimensions before those attended over
  std::vector<int64_t> attended;  // dimensions attended over
  int64_t size = 1;               // the last dimension

  int64_t steps() const { return Shape(attended).num_elements(); }
};

class HeadsAttention : public Layer {
 public:
  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const TensorType& query = call.inputs[0];
    const TensorType* const value = FindType(call, {"value", "#1"});
    const TensorType* const key = FindType(call, {"key", "#2"});
    const std::string& layer = call.settings.layer;
    if (value == nullptr) return WrongInput(layer, query.shape, "it needs a value, too");
    const Shape& keys = key == nullptr ? value->shape : key->shape;
    RETURN_IF_ERROR(CheckShapes(layer, query.shape, value->shape, keys));
    const std::vector<int64_t> out = OutputDims(query.shape);
    const auto add = [&](const char* name, int64_t size, int64_t heads, int64_t dim) {
      return AddDense(call, name, Shape({size, heads, dim}), Shape({heads, dim}), plan);
    };
    RETURN_IF_ERROR(add("query", LastOf(query.shape), heads_, key_dim_));
    RETURN_IF_ERROR(add("key", LastOf(keys), kv_heads_, key_dim_));
    if (use_gate_) RETURN_IF_ERROR(add("gate", LastOf(query.shape), heads_, value_dim_));
    RETURN_IF_ERROR(add("value", LastOf(value->shape), kv_heads_, value_dim_));
    RETURN_IF_ERROR(CheckOutput(layer, query.shape, out));
    std::vector<int64_t> kernel = {heads_, value_dim_};
    kernel.insert(kernel.end(), out.begin(), out.end());
    RETURN_IF_ERROR(AddDense(call, "attention_output", Shape(kernel), Shape(out), plan));
    std::vector<int64_t> dims(query.shape.dims().begin(), query.shape.dims().end());
    dims.pop_back();
    dims.insert(dims.end(), out.begin(), out.end());
    std::vector<TensorType> types = {{.shape = Shape(dims)}};
    if (call.settings.flags.contains("return_attention_scores")) {
      types.push_back({.shape = ScoresShape(query.shape, keys)});
    }
    return types;
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const LayerValue* const value = FindInput(call, {"value", "#1"});
    const LayerValue* const named_key = FindInput(call, {"key", "#2"});
    const HeadInput q = InputOf(&call.input());
    const HeadInput v = InputOf(value);
    const HeadInput k = InputOf(named_key == nullptr ? value : named_key);
    const bool gives_scores = call.settings.flags.contains("return_attention_scores");
    // The query is scaled before the product, as in Keras.
    const std::string scale = nodes.Number(1 / std::sqrt(static_cast<double>(key_dim_)));
    const std::string queries = nodes.Mul(Heads(call, "query", q, heads_, key_dim_, target), scale);
    const std::string keys = Heads(call, "key", k, kv_heads_, key_dim_, target);
    const std::string values = Heads(call, "value", v, kv_heads_, value_dim_, target);
    const std::string seen = Seen(call, q, k, value, named_key, nodes);
    const std::string scores = nodes.Op("MatMul", {queries, nodes.Transpose(keys, {0, 1, 3, 2})});
    // Keras from 3.10 on gives zeros to a query that may see no key, if Keras computes the scores
    // itself and does not call dot_product_attention().
    const bool is_plain = !gives_scores && dropout_ == 0 && call.shape().rank() == 2;
    const bool replaces = hidden_rows_are_zero_ && is_plain;
    std::string weights =
        Softmax(replaces ? Replace(scores, seen, nodes) : Hide(scores, seen, nodes), nodes);
    if (!seen.empty() && hidden_rows_are_zero_ && !is_plain) {
      weights = nodes.Mul(weights, nodes.Reduce("ReduceMax", seen, {-1}));
    }
    std::string dropped = weights;
    if (target.mode == ModelMode::kTraining && dropout_ > 0) {
      dropped = nodes.Mul(weights, nodes.DropoutFactor(weights, dropout_));
    }
    std::string seen_values = nodes.Op("MatMul", {dropped, values});
    if (use_gate_) {
      seen_values = nodes.Mul(seen_values, Heads(call, "gate", q, heads_, value_dim_, target));
    }
    const std::string heads = nodes.Transpose(seen_values, {0, 2, 1, 3});
    const std::string joined = nodes.Reshape(heads, {-1, q.steps(), heads_ * value_dim_});
    const int64_t out = Shape(OutputDims(call.shape())).num_elements();
    const std::string kernel =
        nodes.Reshape(call.Variable("attention_output/kernel"), {heads_ * value_dim_, out});
    std::string y = nodes.Op("MatMul", {joined, kernel});
    if (use_bias_) {
      const std::string bias = call.Variable("attention_output/bias");
      y = nodes.Add(y, output_dims_.size() > 1 ? nodes.Reshape(bias, {out}) : bias);
    }
    std::vector<LayerValue> outputs = {
        {.value = nodes.ReshapeExamples(y, call.outputs[0].shape), .mask = call.input().mask}};
    outputs[0].type = call.outputs[0];
    AddActivityPenalties(projections_, outputs, target);
    if (gives_scores) {
      outputs.push_back({nodes.ReshapeExamples(weights, call.outputs[1].shape)});
    }
    return outputs;
  }

 protected:
  void ReadRest(LayerReader& reader) {
    ObjectReader& config = reader.config;
    config.Number("dropout", {.min = 0, .max = 1, .max_excluded = true}, &dropout_);
    config.Bool("use_bias", &use_bias_);
    reader.Weight("kernel", &kernel_);
    reader.Weight("bias", &bias_);
    // These keys are recorded only if the file gives them, so that the record of other layers stays
    // as it is.
    if (config.Given("use_gate", use_gate_)) ReadGate(config);
    config.OptionalInt("sliding_window", {.min = 1, .max = kDimMax}, &sliding_window_);
    config.Ignore("seed");
    hidden_rows_are_zero_ = reader.Keras() >= KerasVersion{3, 10};
    // The projections of Keras 3 have the regularizer of the layer.
    if (!reader.Keras().IsKeras2()) {
      reader.Regularizer("activity_regularizer", &projections_.regularizer);
      projections_.per_example = IsPerExample(reader.Keras());
    }
    // Keras 2 writes the shapes for which the layer was built.
    for (const char* key : {"query_shape", "key_shape", "value_shape"}) config.Ignore(key);
  }

  int64_t heads_ = 1;
  int64_t kv_heads_ = 1;  // heads of keys and values; each serves as many heads of queries
  int64_t key_dim_ = 1;
  int64_t value_dim_ = 1;
  std::vector<int64_t> output_dims_ = {};     // empty: the query's last dimension
  std::vector<int64_t> attention_axes_ = {};  // empty: all between the batch and the last
  ActivityPenalty projections_;               // the penalty for what each projection gives

 private:
  void ReadGate(ObjectReader& config) {
    const nlohmann::json* const value = config.Find("use_gate");
    if (!value->is_boolean()) {
      return config.AddError(
          "use_gate", absl::StrCat("is ", JsonExcerpt(*value), "; it must be true or false"));
    }
    use_gate_ = value->get<bool>();
    if (use_gate_) config.RecordAs("use_gate", true);
  }

  std::vector<int64_t> OutputDims(const Shape& query) const {
    return output_dims_.empty() ? std::vector<int64_t>{LastOf(query)} : output_dims_;
  }

  // Checks the sizes of the output's kernel and of an example of the output.
  absl::Status CheckOutput(const std::string& layer, const Shape& query,
                           const std::vector<int64_t>& out) const {
    const int64_t rows = query.num_elements() / std::max<int64_t>(LastOf(query), 1);
    int64_t elements = std::max(heads_ * value_dim_, rows);
    for (const int64_t dim : out) {
      if (elements > kElementsMax / dim) {
        return WrongInput(layer, query, "it would make more than 2^31 elements");
      }
      elements *= dim;
    }
    return absl::OkStatus();
  }

  static int64_t LastOf(const Shape& shape) { return shape.dim(shape.rank() - 1); }

  // Returns the number of dimensions before those attended over, without the batch.
  size_t LeadingOf(const Shape& shape) const {
    return attention_axes_.empty() ? 0
                                   : static_cast<size_t>(shape.rank()) - 1 - attention_axes_.size();
  }

  absl::Status CheckShapes(const std::string& layer, const Shape& query, const Shape& value,
                           const Shape& key) const {
    const bool fits = query.rank() >= 2 && value.rank() == query.rank() &&
                      key.rank() == query.rank() && attention_axes_.size() < kRankMax;
    if (!fits) {
      return WrongInput(layer, query,
                        absl::StrCat("the value ", value.ToString(), " and the key ",
                                     key.ToString(), " must have as many dimensions, two or more"));
    }
    // The axes attended over must be the last ones before the features.
    for (size_t i = 0; i < attention_axes_.size(); ++i) {
      const auto last = static_cast<int64_t>(query.rank()) - 1;
      const int64_t axis = attention_axes_[attention_axes_.size() - 1 - i];
      if (axis != last - static_cast<int64_t>(i) || axis < 1) {
        return WrongInput(layer, query,
                          "attention_axes must be their last axes before the features");
      }
    }
    for (int i = 0; i + 1 < query.rank(); ++i) {
      const bool is_leading = static_cast<size_t>(i) < LeadingOf(query);
      const bool same = value.dim(i) == key.dim(i) && (!is_leading || value.dim(i) == query.dim(i));
      if (!same) return WrongInput(layer, key, "its steps are not those of the value");
    }
    return absl::OkStatus();
  }

  absl::Status AddDense(const PlannedCall& call, const std::string& name, const Shape& kernel,
                        const Shape& bias, LayerPlan& plan) const {
    RETURN_IF_ERROR(plan.Add(call, name + "/kernel", kernel, kernel_).status());
    if (!use_bias_) return absl::OkStatus();
    return plan.Add(call, name + "/bias", bias, bias_).status();
  }

  Shape ScoresShape(const Shape& query, const Shape& key) const {
    const size_t leading = LeadingOf(query);
    std::vector<int64_t> dims(query.dims().begin(),
                              query.dims().begin() + static_cast<std::ptrdiff_t>(leading));
    dims.push_back(heads_);
    for (const Shape* shape : {&query, &key}) {
      for (int i = static_cast<int>(leading); i + 1 < shape->rank(); ++i) {
        dims.push_back(shape->dim(i));
      }
    }
    return Shape(dims);
  }

  HeadInput InputOf(const LayerValue* value) const {
    const Shape& shape = value->type.shape;
    const size_t leading = LeadingOf(shape);
    const auto dims = shape.dims();
    const auto steps = dims.subspan(leading, dims.size() - 1 - leading);
    return {value,
            {dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(leading)},
            {steps.begin(), steps.end()},
            dims.back()};
  }

  // Returns [N,heads,steps,dim], where N counts leading dimensions too.
  std::string Heads(const BuiltCall& call, const std::string& name, const HeadInput& input,
                    int64_t heads, int64_t dim, LayerTarget& target) const {
    const Nodes nodes(target.graph);
    const std::string x =
        nodes.Reshape(ChannelsLast(*input.value, nodes), {-1, input.steps(), input.size});
    const std::string path = call.layer() + "/" + name;
    const std::string kernel = nodes.Reshape(path + "/kernel", {input.size, heads * dim});
    std::string y = nodes.Op("MatMul", {x, kernel});
    if (use_bias_) y = nodes.Add(y, nodes.Reshape(path + "/bias", {heads * dim}));
    if (name == "gate") y = nodes.Op("Sigmoid", {y});
    const int64_t elements = Shape(input.leading).num_elements() * input.steps() * heads * dim;
    const LayerValue projected = {.value = y, .type = {.shape = Shape({elements})}};
    AddActivityPenalties(projections_, {&projected, 1}, target);
    y = nodes.Reshape(y, {-1, input.steps(), heads, dim});
    if (heads != heads_) {
      std::vector<int64_t> repeated;
      for (int64_t i = 0; i < heads_; ++i) repeated.push_back(i / (heads_ / heads));
      y = nodes.graph().Op("Gather", {y, nodes.Ints(repeated)}, {IntAttribute("axis", 2)});
    }
    return nodes.Transpose(y, {0, 2, 1, 3});
  }

  // Returns the mask of the keys that each query may see, float32 and broadcast to
  // [N,heads,queries,keys]; "" if every query sees all keys.
  std::string Seen(const BuiltCall& call, const HeadInput& q, const HeadInput& k,
                   const LayerValue* value, const LayerValue* key, const Nodes& nodes) const {
    const auto marks = [&](const std::string& mask, std::vector<int64_t> dims) {
      return mask.empty() ? "" : nodes.Reshape(nodes.Cast(mask, DType::kFloat32), dims);
    };
    const auto mask_of = [&](const LayerValue* tensor, const char* argument) {
      const LayerValue* const given = FindInput(call, {argument});
      if (given != nullptr) return given->value;
      return tensor == nullptr ? std::string() : tensor->mask;
    };
    std::string seen = marks(mask_of(&call.input(), "query_mask"), {-1, 1, q.steps(), 1});
    for (const std::string& mask : {mask_of(value, "value_mask"), mask_of(key, "key_mask")}) {
      seen = Both(seen, marks(mask, {-1, 1, 1, k.steps()}), nodes);
    }
    if (const LayerValue* const mask = FindInput(call, {"attention_mask", "#3"})) {
      const int rank = mask->type.shape.rank();
      std::string given = nodes.Cast(mask->value, DType::kFloat32);
      if (rank == 2) given = nodes.Unsqueeze(given, 1);
      seen = Both(seen, given, nodes);
    }
    if (call.settings.flags.contains("use_causal_mask")) {
      seen = Both(seen, CausalMask(q.steps(), k.steps(), nodes), nodes);
    }
    if (sliding_window_) {
      seen = Both(seen, WindowMask(q.steps(), k.steps(), *sliding_window_, nodes), nodes);
    }
    return seen;
  }

  double dropout_ = 0;
  bool use_bias_ = true;
  // True: each element of each head's output is multiplied by a gate of the query.
  bool use_gate_ = false;
  std::optional<int64_t> sliding_window_;
  bool hidden_rows_are_zero_ = false;
  WeightRules kernel_{{.class_name = "GlorotUniform"}};
  WeightRules bias_{{.class_name = "Zeros"}};
};

class MultiHeadAttention : public HeadsAttention {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    for (const char* key : {"num_heads", "key_dim"}) config.Require(key);
    config.Int("num_heads", {.min = 1, .max = 65536}, &heads_);
    config.Int("key_dim", {.min = 1, .max = 65536}, &key_dim_);
    kv_heads_ = heads_;
    value_dim_ = key_dim_;
    config.Int("value_dim", {.min = 1, .max = 65536}, &value_dim_);
    // A number, or a list of numbers.
    if (config.Given("output_shape", !output_dims_.empty())) {
      config.Ints("output_shape", {.min = 1, .max = kDimMax}, 1, &output_dims_);
      if (output_dims_.empty() || output_dims_.size() > kRankMax - 1) {
        config.AddError("output_shape", absl::StrCat("must have 1 to ", kRankMax - 1, " numbers"));
      }
    }
    if (config.Given("attention_axes", false)) {
      config.Ints("attention_axes", {.min = 1, .max = kRankMax}, 1, &attention_axes_);
    }
    ReadRest(reader);
    only_projections_ = !reader.Keras().IsKeras2();
  }

  // In Keras 3, the projections have the regularizer of the layer, and the layer itself has none.
  const RegularizerSpec* activity() const override {
    static const auto* const kNone = new RegularizerSpec();
    return only_projections_ ? kNone : nullptr;
  }

 private:
  bool only_projections_ = false;
};

class GroupedQueryAttention : public HeadsAttention {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    for (const char* key : {"head_dim", "num_query_heads", "num_key_value_heads"}) {
      config.Require(key);
    }
    config.Int("head_dim", {.min = 1, .max = 65536}, &key_dim_);
    value_dim_ = key_dim_;
    config.Int("num_query_heads", {.min = 1, .max = 65536}, &heads_);
    config.Int("num_key_value_heads", {.min = 1, .max = 65536}, &kv_heads_);
    if (heads_ % kv_heads_ != 0) {
      config.AddError(
          "num_key_value_heads",
          absl::StrCat("is ", kv_heads_, ", which does not divide ", heads_, " query heads"));
    }
    ReadRest(reader);
  }
};

// Scores of queries [N,queries,size] and keys [N,keys,size]: the scalar product, or (kAdditive) the
// sum of tanh(query + key).
template <bool kAdditive>
class PlainAttention : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    use_scale_ = kAdditive;
    config.Bool("use_scale", &use_scale_);
    if (!kAdditive) config.Choice("score_mode", {"dot", "concat"}, &score_mode_);
    config.Number("dropout", {.min = 0, .max = 1, .max_excluded = true}, &dropout_);
    config.Bool("causal", &causal_);
    config.Ignore("seed");
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const std::string& layer = call.settings.layer;
    if (call.inputs.size() < 2 || call.inputs.size() > 3) {
      return WrongInput(layer, call.shape(), "it takes a list of query, value and perhaps key");
    }
    const Shape& q = call.shape();
    const Shape& v = call.inputs[1].shape;
    const Shape& k = call.inputs.back().shape;
    const bool fits = q.rank() == 2 && v.rank() == 2 && k.rank() == 2 && k.dim(0) == v.dim(0) &&
                      k.dim(1) == q.dim(1);
    if (!fits) {
      return WrongInput(layer, q,
                        absl::StrCat("they do not fit to the value ", v.ToString(), " and the key ",
                                     k.ToString()));
    }
    const WeightRules ones{{.class_name = kAdditive ? "GlorotUniform" : "Ones"}};
    if (use_scale_) {
      const Shape shape = kAdditive ? Shape({k.dim(1)}) : Shape();
      RETURN_IF_ERROR(plan.Add(call, "scale", shape, ones).status());
    }
    if (score_mode_ == "concat") {
      RETURN_IF_ERROR(plan.Add(call, "concat_score_weight", Shape(), ones).status());
    }
    std::vector<TensorType> types = {{.shape = Shape({q.dim(0), v.dim(1)})}};
    if (call.settings.flags.contains("return_attention_scores")) {
      types.push_back({.shape = Shape({q.dim(0), k.dim(0)})});
    }
    return types;
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::string q = ChannelsLast(call.inputs[0], nodes);
    const std::string v = ChannelsLast(call.inputs[1], nodes);
    const std::string k = ChannelsLast(call.inputs.back(), nodes);
    const int64_t queries = call.shape().dim(0);
    const int64_t keys = call.inputs.back().type.shape.dim(0);
    std::string seen;
    if (const std::string& mask = call.inputs[1].mask; !mask.empty()) {
      seen = nodes.Unsqueeze(nodes.Cast(mask, DType::kFloat32), 1);
    }
    if (causal_ || call.settings.flags.contains("use_causal_mask")) {
      seen = Both(seen, CausalMask(queries, keys, nodes), nodes);
    }
    std::string weights = Softmax(Hide(Scores(call, q, k, nodes), seen, nodes), nodes);
    if (target.mode == ModelMode::kTraining && dropout_ > 0) {
      weights = nodes.Mul(weights, nodes.DropoutFactor(weights, dropout_));
    }
    std::string y = nodes.Op("MatMul", {weights, v});
    // A query that its mask hides gives zeros.
    if (const std::string& mask = call.input().mask; !mask.empty()) {
      y = nodes.Mul(y, nodes.Unsqueeze(nodes.Cast(mask, DType::kFloat32), 2));
    }
    std::vector<LayerValue> outputs = {{.value = y, .mask = call.input().mask}};
    if (call.outputs.size() > 1) outputs.push_back({weights});
    return outputs;
  }

 private:
  std::string Scores(const BuiltCall& call, const std::string& q, const std::string& k,
                     const Nodes& nodes) const {
    if (!kAdditive && score_mode_ == "dot") {
      const std::string scores = nodes.Op("MatMul", {q, nodes.Transpose(k, {0, 2, 1})});
      return use_scale_ ? nodes.Mul(scores, call.Variable("scale")) : scores;
    }
    std::string sum = nodes.Add(nodes.Unsqueeze(q, 2), nodes.Unsqueeze(k, 1));
    if (!kAdditive && use_scale_) sum = nodes.Mul(sum, call.Variable("scale"));
    std::string curved = nodes.Op("Tanh", {sum});
    if (kAdditive && use_scale_) curved = nodes.Mul(curved, call.Variable("scale"));
    const std::string scores = nodes.ReduceAway("ReduceSum", curved, {3});
    return kAdditive ? scores : nodes.Mul(scores, call.Variable("concat_score_weight"));
  }

  bool use_scale_ = false;
  std::string score_mode_ = kAdditive ? "" : "dot";
  double dropout_ = 0;
  bool causal_ = false;
};

}  // namespace

void AddAttentionLayers(std::vector<LayerClass>& classes) {
  static constexpr char kHeadArguments[] =
      "#1 #2 #3 value key attention_mask query_mask value_mask key_mask use_causal_mask "
      "return_attention_scores";
  classes.push_back({"MultiHeadAttention", MakeLayer<MultiHeadAttention>, MaskRule::kOwn,
                     LayerKind::kOneInput, kHeadArguments});
  classes.push_back({"GroupedQueryAttention", MakeLayer<GroupedQueryAttention>, MaskRule::kOwn,
                     LayerKind::kOneInput, kHeadArguments});
  static constexpr char kArguments[] = "use_causal_mask return_attention_scores";
  classes.push_back({"Attention", MakeLayer<PlainAttention<false>>, MaskRule::kOwn,
                     LayerKind::kList, kArguments});
  classes.push_back({"AdditiveAttention", MakeLayer<PlainAttention<true>>, MaskRule::kOwn,
                     LayerKind::kList, kArguments});
}

}  // namespace cohort
