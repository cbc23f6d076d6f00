// Layers that change elements at random, in training: the key `seed` chooses among the streams of
// random numbers of a job, and data_format the axis along which whole channels are dropped. Keras
// draws from other streams, so its numbers are no measure here.

#include <set>
#include <string>
#include <vector>

#include "common/program/graph_builder.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using nlohmann::json;

// A layer with a config but for `seed`, and the shape of a batch for it.
struct RandomLayer {
  const char* class_name;
  json config;
  Shape shape;
};

std::vector<RandomLayer> RandomLayers() {
  return {{"Dropout", {{"rate", 0.5}}, {4, 30}},
          {"SpatialDropout1D", {{"rate", 0.5}}, {4, 3, 30}},
          {"SpatialDropout2D", {{"rate", 0.5}}, {4, 2, 3, 30}},
          {"SpatialDropout3D", {{"rate", 0.5}}, {4, 2, 1, 3, 30}},
          {"AlphaDropout", {{"rate", 0.5}}, {4, 30}},
          {"GaussianDropout", {{"rate", 0.5}}, {4, 30}},
          {"GaussianNoise", {{"stddev", 0.5}}, {4, 30}}};
}

// Returns what the layer makes of a batch of ones in the first training step of a job.
std::vector<float> OfOnes(const RandomLayer& layer, const json& more) {
  json config = layer.config;
  config.update(more);
  const absl::Span<const int64_t> dims = layer.shape.dims();
  GraphBuilder graph("random");
  graph.Input("x", DType::kFloat32, dims);
  const TensorType type = {DType::kFloat32, Shape(dims.subspan(1))};
  StateValues state;
  const auto built = BuildLayer({{"class_name", layer.class_name}, {"config", config}},
                                {{.value = "x", .type = type}}, graph, state);
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return {};
  graph.Output(graph.Op("Identity", {built->value}));
  const auto model = graph.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  Tensor ones(DType::kFloat32, layer.shape);
  for (int64_t i = 0; i < ones.num_elements(); ++i) ones.mutable_data<float>()[i] = 1;
  const auto outputs = RunGraph(*model, {ones});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (!outputs.ok()) return {};
  const absl::Span<const float> values = (*outputs)[0].span<float>();
  return {values.begin(), values.end()};
}

TEST(RandomLayers, TheSameSeedGivesTheSameNumbersAndAnotherOthers) {
  for (const RandomLayer& layer : RandomLayers()) {
    SCOPED_TRACE(layer.class_name);
    const std::vector<float> seven = OfOnes(layer, {{"seed", 7}});
    EXPECT_EQ(seven, OfOnes(layer, {{"seed", 7}}));
    EXPECT_NE(seven, OfOnes(layer, {{"seed", 8}}));
    const std::vector<float> without = OfOnes(layer, {{"seed", nullptr}});
    EXPECT_NE(seven, without);
    EXPECT_EQ(without, OfOnes(layer, json::object()));
  }
}

// Each channel of an example is dropped as a whole, or multiplied by 1 / (1 - rate) as a whole.
TEST(RandomLayers, SpatialDropoutDropsTheChannelsOfItsDataFormat) {
  const RandomLayer square = {"SpatialDropout2D", {{"rate", 0.75}}, {2, 8, 3, 8}};
  const RandomLayer cube = {"SpatialDropout3D", {{"rate", 0.75}}, {2, 8, 3, 2, 8}};
  for (const RandomLayer& layer : {square, cube}) {
    const int64_t positions = layer.shape.num_elements() / 16;
    for (const bool first : {false, true}) {
      const std::vector<float> y =
          OfOnes(layer, {{"data_format", first ? "channels_first" : "channels_last"}});
      std::set<float> factors;
      for (int64_t i = 0; i < layer.shape.num_elements(); ++i) {
        const int64_t example = i / (8 * positions);
        const int64_t channel = first ? i / positions % 8 : i % 8;
        const int64_t begin = example * 8 * positions + (first ? channel * positions : channel);
        EXPECT_EQ(y[static_cast<size_t>(i)], y[static_cast<size_t>(begin)]) << i;
        factors.insert(y[static_cast<size_t>(i)]);
      }
      EXPECT_EQ(factors, (std::set<float>{0, 4})) << layer.class_name;
    }
  }
}

}  // namespace
}  // namespace cohort
