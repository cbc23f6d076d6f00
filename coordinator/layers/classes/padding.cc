// Layers that add zeros around sequences, images and volumes, or cut their edges off.

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/classes/image.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// How much is added or cut before and after one axis.
struct Edges {
  int64_t before = 0;
  int64_t behind = 0;
};

// Returns a number for both edges, or a list of two.
std::optional<Edges> EdgesOf(const json& value) {
  const auto is_size = [](const json& one) {
    return one.is_number_integer() && one >= 0 && one <= kDimMax;
  };
  if (is_size(value)) return Edges{value.get<int64_t>(), value.get<int64_t>()};
  if (!value.is_array() || value.size() != 2 || !is_size(value[0]) || !is_size(value[1])) {
    return std::nullopt;
  }
  return Edges{value[0].get<int64_t>(), value[1].get<int64_t>()};
}

// Returns the edges of each axis. The value is a number for all axes, or a list with a number or a
// pair for each axis; for one axis it may be a pair. Returns nothing for any other value.
std::optional<std::vector<Edges>> AllEdgesOf(const json& value, size_t axes) {
  if (value.is_number()) {
    const std::optional<Edges> same = EdgesOf(value);
    if (!same) return std::nullopt;
    return std::vector<Edges>(axes, *same);
  }
  const json list = axes == 1 ? json::array({value}) : value;
  if (!list.is_array() || list.size() != axes) return std::nullopt;
  std::vector<Edges> all;
  for (const json& one : list) {
    const std::optional<Edges> edges = EdgesOf(one);
    if (!edges) return std::nullopt;
    all.push_back(*edges);
  }
  return all;
}

// Base of ZeroPadding and Cropping. `kDefault` is Keras's default for each edge.
template <size_t kAxes, int64_t kDefault>
class EdgeLayer : public Layer {
 protected:
  void ReadEdges(const char* key, LayerReader& reader) {
    reader.FloatPolicy();
    if (const json* const value = reader.config.Find(key)) {
      const auto edges = AllEdgesOf(*value, kAxes);
      if (edges) edges_ = *edges;
      if (!edges) {
        reader.config.AddError(
            key, absl::StrCat("is ", JsonExcerpt(*value), "; it must be a number from 0 on, or ",
                              kAxes == 1 ? "two" : "one or two for each axis"));
      }
    }
    nlohmann::ordered_json record = nlohmann::ordered_json::array();
    for (const Edges& one : edges_) record.push_back({one.before, one.behind});
    reader.config.RecordAs(key, kAxes == 1 ? record[0] : record);
  }

  // Plans an output whose axes are longer than the input's by `sign` times the edges.
  absl::StatusOr<std::vector<TensorType>> PlanEdges(const PlannedCall& call, int64_t sign) const {
    const Shape& input = call.shape();
    RETURN_IF_ERROR(layout_.Check(call.settings.layer, input));
    std::vector<int64_t> sizes = layout_.Sizes(input);
    for (size_t i = 0; i < kAxes; ++i) sizes[i] += sign * (edges_[i].before + edges_[i].behind);
    ASSIGN_OR_RETURN(const Shape output,
                     layout_.Example(call.settings.layer, input, sizes, layout_.Channels(input)));
    return std::vector<TensorType>{{.shape = output}};
  }

  ImageLayout layout_{kAxes};
  std::vector<Edges> edges_ = std::vector<Edges>(kAxes, Edges{kDefault, kDefault});
};

template <size_t kAxes>
class ZeroPadding : public EdgeLayer<kAxes, 1> {
 public:
  void Read(LayerReader& reader) override {
    reader.DataFormat(&this->layout_.channels_first);
    this->ReadEdges("padding", reader);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    return this->PlanEdges(call, 1);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    std::vector<int64_t> pads = {0, 0};
    for (const Edges& one : this->edges_) pads.push_back(one.before);
    pads.insert(pads.end(), {0, 0});
    for (const Edges& one : this->edges_) pads.push_back(one.behind);
    return {this->layout_.FromOnnx(
        nodes.Op("Pad", {this->layout_.ToOnnx(call.input(), nodes), nodes.Ints(pads)}))};
  }
};

// Cuts positions off both ends of each axis. Keras's default is 0 for images, and 1 for sequences
// and volumes.
template <size_t kAxes>
class Cropping : public EdgeLayer<kAxes, kAxes == 2 ? 0 : 1> {
 public:
  void Read(LayerReader& reader) override {
    if (kAxes == 1) {
      reader.OnlyChannelsLast();
    } else {
      reader.DataFormat(&this->layout_.channels_first);
    }
    this->ReadEdges("cropping", reader);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    return this->PlanEdges(call, -1);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::vector<int64_t> sizes = this->layout_.Sizes(call.shape());
    std::vector<int64_t> begins, ends, axes;
    for (size_t i = 0; i < kAxes; ++i) {
      begins.push_back(this->edges_[i].before);
      ends.push_back(sizes[i] - this->edges_[i].behind);
      axes.push_back(static_cast<int64_t>(i) + 2);
    }
    const std::string x = this->layout_.ToOnnx(call.input(), nodes);
    return {this->layout_.FromOnnx(
        nodes.Op("Slice", {x, nodes.Ints(begins), nodes.Ints(ends), nodes.Ints(axes)}))};
  }
};

}  // namespace

void AddPaddingLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"ZeroPadding1D", MakeLayer<ZeroPadding<1>>});
  classes.push_back({"ZeroPadding2D", MakeLayer<ZeroPadding<2>>});
  classes.push_back({"ZeroPadding3D", MakeLayer<ZeroPadding<3>>});
  classes.push_back({"Cropping1D", MakeLayer<Cropping<1>>});
  classes.push_back({"Cropping2D", MakeLayer<Cropping<2>>});
  classes.push_back({"Cropping3D", MakeLayer<Cropping<3>>});
}

}  // namespace cohort
