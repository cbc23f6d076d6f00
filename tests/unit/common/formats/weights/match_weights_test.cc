#include "common/formats/weights/match_weights.h"

#include <gmock/gmock.h>

#include "common/formats/safetensors.h"
#include "common/formats/weights/keras_groups.h"
#include "common/formats/weights/open_weights.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/formats_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns an open file with these tensors.
WeightFile FileWith(FileSystem& disk, const std::vector<NamedTensor>& tensors) {
  EXPECT_TRUE(WriteSafetensors(disk, "file", tensors, {}).ok());
  auto file = OpenWeights(disk, "file");
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

std::vector<WantedWeight> One(const std::string& name, const Shape& shape) {
  return {{name, shape}};
}

Tensor Two() { return Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3}); }

TEST(MatchWeights, NamesMatchWhollyOrByTheirLastTwoParts) {
  MemoryFileSystem disk;
  const WeightFile file = FileWith(disk, {{"sequential/d1/kernel", Two()},
                                          {"d1/bias:0", Two()},
                                          {"other", Two()},
                                          {"a/x/w", Two()},
                                          {"b/x/w", Two()}});
  const std::vector<WantedWeight> wanted = {
      {"d1/kernel", {2, 3}}, {"d1/bias", {2, 3}}, {"x/w", {2, 3}}, {"d2/kernel", {2, 3}}};
  const auto matches = MatchWeights(wanted, file, {});
  ASSERT_TRUE(matches.ok()) << matches.status();
  ASSERT_EQ(matches->matched.size(), 2u);
  // Two values end like x/w, and neither is taken.
  EXPECT_THAT(matches->missing, ElementsAre("x/w", "d2/kernel"));
  EXPECT_THAT(matches->left_over, testing::UnorderedElementsAre("other", "a/x/w", "b/x/w"));
  EXPECT_THAT(matches->mismatched, IsEmpty());
}

TEST(MatchWeights, AShapeThatDiffersIsSaidWithBothShapes) {
  MemoryFileSystem disk;
  const WeightFile file = FileWith(disk, {{"d1/kernel", Two()}});
  const auto matches = MatchWeights(One("d1/kernel", {3, 2}), file, {});
  ASSERT_TRUE(matches.ok());
  EXPECT_THAT(matches->mismatched, ElementsAre("d1/kernel is [3,2] here and [2,3] in the file"));
  EXPECT_THAT(matches->matched, IsEmpty());
  EXPECT_THAT(matches->missing, IsEmpty());
}

TEST(MatchWeights, ARenameMayTranspose) {
  MemoryFileSystem disk;
  const WeightFile file = FileWith(disk, {{"fc.weight", Two()}});
  const auto matches =
      MatchWeights(One("d1/kernel", {3, 2}), file, {{"d1/kernel", {"fc.weight", {1, 0}}}});
  ASSERT_TRUE(matches.ok()) << matches.status();
  ASSERT_EQ(matches->matched.size(), 1u);
  const auto value = ReadMatch(file, matches->matched[0], DType::kFloat32);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->shape(), (Shape{3, 2}));
  EXPECT_THAT(AsNumbers(*value), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(MatchWeights, AxesOfThreeAreTransposedInAnyOrder) {
  MemoryFileSystem disk;
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) values.push_back(static_cast<float>(i));
  const WeightFile file = FileWith(disk, {{"w", Tensor::FromVector<float>(values, {2, 3, 4})}});
  const auto matches = MatchWeights(One("v", {4, 2, 3}), file, {{"v", {"w", {2, 0, 1}}}});
  ASSERT_TRUE(matches.ok()) << matches.status();
  const auto value = ReadMatch(file, matches->matched.at(0), DType::kFloat32);
  const std::vector<double> numbers = AsNumbers(*value);
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 2; ++b) {
      for (int c = 0; c < 3; ++c) EXPECT_EQ(numbers[a * 6 + b * 3 + c], b * 12 + c * 4 + a);
    }
  }
}

TEST(MatchWeights, RenamesThatCannotBeAreRefused) {
  MemoryFileSystem disk;
  const WeightFile file = FileWith(disk, {{"w", Two()}});
  const std::vector<WantedWeight> wanted = {{"v", {2, 3}}};
  for (const auto& [renames, text] :
       std::vector<std::pair<std::map<std::string, WeightRename>, std::string>>{
           {{{"u", {"w", {}}}}, "'u', which the model does not have"},
           {{{"v", {"x", {}}}}, "'x', which file does not have"},
           {{{"v", {"w", {0, 0}}}}, "each of the 2 axes"},
           {{{"v", {"w", {0, 2}}}}, "each of the 2 axes"},
           {{{"v", {"w", {0}}}}, "each of the 2 axes"}}) {
    const auto matches = MatchWeights(wanted, file, renames);
    EXPECT_TRUE(absl::IsInvalidArgument(matches.status()));
    EXPECT_THAT(std::string(matches.status().message()), HasSubstr(text));
  }
}

TEST(MatchWeights, FloatsOfEveryWidthBecomeTheVariablesType) {
  MemoryFileSystem disk;
  Tensor half(DType::kFloat16, {4});
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7c00};  // 1, -2, 2^-24, infinity
  std::memcpy(half.mutable_raw(), halves, sizeof(halves));
  Tensor brain(DType::kBfloat16, {2});
  const uint16_t brains[] = {0x3f80, 0xc000};  // 1, -2
  std::memcpy(brain.mutable_raw(), brains, sizeof(brains));
  const WeightFile file = FileWith(disk, {{"half", half},
                                          {"brain", brain},
                                          {"double", Tensor::FromVector<double>({1.5, -2}, {2})},
                                          {"whole", Tensor::FromVector<int32_t>({1}, {1})}});
  const auto read = [&](const std::string& name, const Shape& shape) {
    const auto matches = MatchWeights(One(name, shape), file, {});
    return ReadMatch(file, matches->matched.at(0), DType::kFloat32);
  };
  EXPECT_THAT(AsNumbers(*read("half", {4})),
              ElementsAre(1, -2, 0x1p-24, std::numeric_limits<double>::infinity()));
  EXPECT_THAT(AsNumbers(*read("brain", {2})), ElementsAre(1, -2));
  EXPECT_THAT(AsNumbers(*read("double", {2})), ElementsAre(1.5, -2));
  EXPECT_TRUE(absl::IsInvalidArgument(read("whole", {1}).status()));
}

// A file of the legacy kind with these layers and variables, each of shape [2].
WeightFile LegacyFile(const std::vector<std::pair<std::string, std::string>>& variables) {
  WeightFile file;
  file.kind = WeightFileKind::kLegacyHdf5;
  for (const auto& [layer, variable] : variables) {
    WeightEntry entry;
    entry.name = entry.variable = variable;
    entry.layer = layer;
    entry.dtype = DType::kFloat32;
    entry.shape = Shape{2};
    file.entries.push_back(entry);
  }
  return file;
}

std::vector<size_t> EntriesOf(const WeightMatches& matches) {
  std::vector<size_t> entries;
  for (const WeightMatch& match : matches.matched) entries.push_back(match.entry);
  return entries;
}

// The names of the file differ from the model's.
TEST(MatchWeights, LegacyFilesGoByPositionIfNamesDoNotFit) {
  const WeightFile file = LegacyFile(
      {{"dense_7", "dense_7/kernel"}, {"dense_7", "dense_7/bias"}, {"dense_8", "dense_8/kernel"}});
  std::vector<WantedWeight> wanted = {
      {"a/kernel", {2}, "a"}, {"a/bias", {2}, "a"}, {"b/kernel", {2}, "b"}};
  const auto matches = MatchWeights(wanted, file, {});
  ASSERT_TRUE(matches.ok());
  ASSERT_EQ(matches->matched.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(matches->matched[i].entry, i);
  // What a user maps does not go by its position.
  const auto renamed = MatchWeights(wanted, file, {{"a/kernel", {"dense_8/kernel", {}}}});
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  EXPECT_THAT(EntriesOf(*renamed), ElementsAre(2, 1, 2));
  wanted.push_back({"c/kernel", {2}, "c"});
  EXPECT_EQ(MatchWeights(wanted, file, {})->missing.size(), 4u);
}

// Keras 2 writes the statistics of a nested model behind everything that is trained.
TEST(MatchWeights, NamesThatFitInALayerSayMoreThanPositions) {
  const WeightFile file = LegacyFile({{"sub", "bn/gamma"},
                                      {"sub", "d/kernel"},
                                      {"sub", "bn/moving_mean"},
                                      {"dense_8", "dense_8/kernel"}});
  const std::vector<WantedWeight> wanted = {{"sub/bn/gamma", {2}, "sub"},
                                            {"sub/bn/moving_mean", {2}, "sub"},
                                            {"sub/d/kernel", {2}, "sub"},
                                            {"b/kernel", {2}, "b"}};
  const auto matches = MatchWeights(wanted, file, {});
  ASSERT_TRUE(matches.ok()) << matches.status();
  EXPECT_THAT(EntriesOf(*matches), ElementsAre(0, 2, 1, 3));
}

TEST(KerasGroups, NamesAreThoseOfKeras) {
  for (const auto& [class_name, snake] : std::vector<std::pair<std::string, std::string>>{
           {"Conv2D", "conv2d"},
           {"MultiHeadAttention", "multi_head_attention"},
           {"ReLU", "re_lu"},
           {"PReLU", "p_re_lu"},
           {"GlobalAveragePooling1D", "global_average_pooling1d"},
           {"Conv2DTranspose", "conv2d_transpose"},
           {"LSTM", "lstm"},
           {"RNN", "rnn"},
           {"TFOpLambda", "tf_op_lambda"},
           {"UpSampling2D", "up_sampling2d"},
           {"BatchNormalization", "batch_normalization"}}) {
    EXPECT_EQ(KerasSnakeCase(class_name), snake);
  }
  EXPECT_THAT(KerasLayerGroups(std::vector<std::string>{"Conv2D", "Dense", "Conv2D", "Conv2D"}),
              ElementsAre("layers/conv2d", "layers/dense", "layers/conv2d_1", "layers/conv2d_2"));
}

TEST(KerasGroups, AConfigNamesTheLayersOfItsGroups) {
  const std::string config = R"({"class_name": "Functional", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"name": "x"}},
      {"class_name": "Dense", "config": {"name": "first"}},
      {"class_name": "Sequential", "config": {"name": "inner", "layers": [
          {"class_name": "Dense", "config": {"name": "deep"}}]}},
      {"class_name": "Dense", "config": {"name": "last"}}]}})";
  const std::map<std::string, std::string> expected = {
      {"layers/input_layer", "x"},
      {"layers/dense", "first"},
      {"layers/sequential", "inner"},
      {"layers/sequential/layers/dense", "inner/deep"},
      {"layers/dense_1", "last"}};
  EXPECT_EQ(KerasLayersByGroup(config), expected);
  for (const char* other : {"", "{", "[]", "7", "{\"config\": [1, {\"config\": 3}]}"}) {
    EXPECT_LE(KerasLayersByGroup(other).size(), 2u) << other;
  }
}

}  // namespace
}  // namespace cohort
