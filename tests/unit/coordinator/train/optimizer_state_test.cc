#include "coordinator/train/optimizer_state.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/formats/weights/keras_groups.h"
#include "common/formats/weights/open_weights.h"
#include "common/program/update_rule.h"
#include "coordinator/train/keras_slots.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/hdf5/hdf5_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

proto::UpdateRule RuleOf(const std::string& op, const std::map<std::string, double>& parameters) {
  proto::UpdateRule rule;
  rule.set_op(op);
  for (const auto& [name, value] : parameters) {
    proto::HyperParameter& parameter = *rule.add_parameters();
    parameter.set_name(name);
    parameter.set_value(value);
  }
  return rule;
}

proto::VariableLayout LayoutOf(const std::string& name, const Shape& shape,
                               const proto::UpdateRule& rule) {
  proto::VariableLayout layout;
  layout.set_name(name);
  layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
  for (const int64_t dim : shape.dims()) layout.add_dims(dim);
  *layout.mutable_rule() = rule;
  return layout;
}

class ListedTensors final : public WeightSource {
 public:
  explicit ListedTensors(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}
  absl::StatusOr<Tensor> Read(size_t index) const override { return tensors_[index]; }

 private:
  const std::vector<Tensor> tensors_;
};

WeightEntry EntryOf(const std::string& name, const std::string& variable, WeightRole role) {
  WeightEntry entry;
  entry.name = name;
  entry.variable = variable;
  entry.role = role;
  return entry;
}
WeightEntry GlobalStep() { return EntryOf("global_step", "global_step", WeightRole::kOther); }

// A file with the variables "d/kernel" float32[2] and "d/bias" float32[2], and what a test adds.
class FileOfTest {
 public:
  explicit FileOfTest(WeightFileKind kind) {
    file_.kind = kind;
    for (const char* name : {"d/kernel", "d/bias"}) {
      Add(EntryOf(name, name, WeightRole::kWeight), Tensor::FromVector<float>({1, 2}, Shape{2}));
    }
  }
  FileOfTest& Add(WeightEntry entry, const Tensor& value) {
    entry.dtype = value.dtype();
    entry.shape = value.shape();
    file_.entries.push_back(std::move(entry));
    tensors_.push_back(value);
    return *this;
  }
  // Adds a value of the optimizer that has the same name in the file and in the program.
  FileOfTest& AddState(const std::string& name, const Tensor& value) {
    return Add(EntryOf(name, name, WeightRole::kOptimizer), value);
  }
  FileOfTest& AddNumbered(const Tensor& value) {
    WeightEntry entry =
        EntryOf(absl::StrCat("optimizer/vars/", numbered_), "", WeightRole::kOptimizer);
    entry.group = "optimizer";
    entry.position = numbered_++;
    return Add(std::move(entry), value);
  }
  WeightFileTexts& texts() { return file_.texts; }

  OptimizerStateSearch Find(const proto::UpdateRule& rule, std::optional<double> rate) {
    file_.source = std::make_unique<ListedTensors>(tensors_);
    layouts_.clear();
    for (const char* name : {"d/kernel", "d/bias"}) {
      layouts_.push_back(LayoutOf(name, Shape{2}, rule));
    }
    trained_.clear();
    for (size_t i = 0; i < layouts_.size(); ++i) trained_.push_back({&layouts_[i], {i, i, {}}});
    const auto found = FindOptimizerState(file_, trained_, rate);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.value_or(OptimizerStateSearch());
  }
  // Returns the contents of the slots that were found, by variable and slot.
  std::map<std::string, std::vector<float>> Read(const OptimizerState& state) const {
    std::map<std::string, std::vector<float>> contents;
    for (const FoundSlot& slot : state.slots) {
      const auto content = ReadSlot(file_, trained_[slot.variable], slot);
      EXPECT_TRUE(content.ok()) << content.status();
      const absl::Span<const float> floats = content->span<float>();
      contents[absl::StrCat(layouts_[slot.variable].name(), ":", slot.slot)] = {floats.begin(),
                                                                                floats.end()};
    }
    return contents;
  }

 private:
  WeightFile file_;
  std::vector<Tensor> tensors_;
  std::vector<proto::VariableLayout> layouts_;
  std::vector<TrainedVariable> trained_;
  int numbered_ = 0;
};

Tensor Pair(float a, float b) { return Tensor::FromVector<float>({a, b}, Shape{2}); }
Tensor Count(int64_t count) { return Tensor::Scalar<int64_t>(count); }

constexpr auto kCheckpoint = WeightFileKind::kTensorFlowCheckpoint;

// A checkpoint of TensorFlow 1 by MomentumOptimizer.
FileOfTest Tf1Momentum() {
  FileOfTest file(kCheckpoint);
  file.AddState("d/kernel/Momentum", Pair(2, 4));
  file.AddState("d/bias/Momentum", Pair(6, 8));
  file.Add(GlobalStep(), Count(7));
  return file;
}

TEST(OptimizerState, ASumOfGradientsBecomesAMomentumByAConstantRate) {
  FileOfTest file = Tf1Momentum();
  const auto found = file.Find(RuleOf("sgd", {{"momentum", 0.9}}), 0.5);
  ASSERT_TRUE(found.state.has_value()) << found.why_not;
  EXPECT_EQ(found.state->step, 7);
  const auto contents = file.Read(*found.state);
  EXPECT_THAT(contents.at("d/kernel:momentum"), ElementsAre(-1, -2));
  EXPECT_THAT(contents.at("d/bias:momentum"), ElementsAre(-3, -4));
}

TEST(OptimizerState, ASumOfGradientsStaysOneForTheOlderArithmetic) {
  FileOfTest file = Tf1Momentum();
  const auto rule = RuleOf("sgd", {{"momentum", 0.9}, {"momentum_of_gradients", 1}});
  const auto found = file.Find(rule, std::nullopt);
  ASSERT_TRUE(found.state.has_value()) << found.why_not;
  EXPECT_THAT(file.Read(*found.state).at("d/kernel:momentum"), ElementsAre(2, 4));
}

TEST(OptimizerState, ASumOfGradientsIsNotTakenWithAChangingRate) {
  const auto found = Tf1Momentum().Find(RuleOf("sgd", {{"momentum", 0.9}}), std::nullopt);
  EXPECT_FALSE(found.state.has_value());
  EXPECT_THAT(found.why_not, HasSubstr("constant learning rate"));
}

TEST(OptimizerState, KerasMomentumBecomesASumByAConstantRate) {
  FileOfTest file(kCheckpoint);
  for (const char* name : {"d/kernel", "d/bias"}) {
    file.Add(EntryOf(absl::StrCat("x/", name, "/.ATTRIBUTES/VARIABLE_VALUE"),
                     absl::StrCat("SGD/m/", name), WeightRole::kOptimizer),
             Pair(-1, -2));
  }
  file.Add(EntryOf("i/.ATTRIBUTES/VARIABLE_VALUE", "iteration", WeightRole::kOptimizer), Count(3));
  const auto rule = RuleOf("sgd", {{"momentum", 0.9}, {"momentum_of_gradients", 1}});
  const auto found = file.Find(rule, 0.5);
  ASSERT_TRUE(found.state.has_value()) << found.why_not;
  EXPECT_THAT(file.Read(*found.state).at("d/kernel:momentum"), ElementsAre(2, 4));
  EXPECT_FALSE(file.Find(rule, 0.0).state.has_value());
}

// The second slot of a centered RMSProp is the mean of the gradients, of another one the momentum.
TEST(OptimizerState, SlotsOfACenteredRmsPropAreNotThoseOfAnother) {
  FileOfTest file(kCheckpoint);
  for (const char* name : {"d/kernel", "d/bias"}) {
    file.AddState(absl::StrCat(name, "/RMSProp"), Pair(1, 2));
    file.AddState(absl::StrCat(name, "/RMSProp_1"), Pair(3, 4));
    file.AddState(absl::StrCat(name, "/RMSProp_2"), Pair(5, 6));
  }
  const auto plain = file.Find(RuleOf("rmsprop", {{"momentum", 0.5}}), 0.1);
  EXPECT_FALSE(plain.state.has_value());
  EXPECT_THAT(plain.why_not, HasSubstr("'d/kernel/RMSProp_2' is one slot more"));
  const auto centered = file.Find(RuleOf("rmsprop", {{"centered", 1}, {"momentum", 0.5}}), 0.1);
  ASSERT_TRUE(centered.state.has_value()) << centered.why_not;
  const auto contents = file.Read(*centered.state);
  EXPECT_THAT(contents.at("d/kernel:velocity"), ElementsAre(1, 2));
  EXPECT_THAT(contents.at("d/kernel:average_gradient"), ElementsAre(3, 4));
  EXPECT_THAT(contents.at("d/kernel:momentum"), ElementsAre(5, 6));
  // Nothing says the step, and the formula does not need it.
  EXPECT_EQ(centered.state->step, 0);
}

FileOfTest Tf1Adam(float power) {
  FileOfTest file(kCheckpoint);
  for (const char* name : {"d/kernel", "d/bias"}) {
    file.AddState(absl::StrCat(name, "/Adam"), Pair(1, 2));
    file.AddState(absl::StrCat(name, "/Adam_1"), Pair(3, 4));
  }
  file.AddState("beta2_power", Tensor::Scalar(power));
  return file;
}

TEST(OptimizerState, AdamsStepIsThatOfItsPowersBeforeThatOfTheGraph) {
  const auto rule = RuleOf("adam", {});
  FileOfTest file = Tf1Adam(static_cast<float>(std::pow(0.999, 26)));
  file.Add(GlobalStep(), Count(99));
  EXPECT_EQ(file.Find(rule, 0.1).state->step, 25);
  // Of a power that has vanished only the graph's step is left.
  EXPECT_EQ(Tf1Adam(0).Add(GlobalStep(), Count(99)).Find(rule, 0.1).state->step, 99);
  const auto unknown = Tf1Adam(0).Find(rule, 0.1);
  EXPECT_FALSE(unknown.state.has_value());
  EXPECT_THAT(unknown.why_not, HasSubstr("how many steps"));
}

TEST(OptimizerState, SlotsOfASecondOptimizerAreNotGuessed) {
  FileOfTest file = Tf1Adam(0.9F);
  file.Add(EntryOf("d/bias/Adam_2", "d/bias/Adam_2", WeightRole::kWeight), Pair(0, 0));
  EXPECT_THAT(file.Find(RuleOf("adam", {}), 0.1).why_not, HasSubstr("several optimizers"));
  FileOfTest two(WeightFileKind::kLegacyHdf5);
  two.AddState("Adam/m/d/kernel", Pair(0, 0)).AddState("SGD/m/d/bias", Pair(0, 0));
  EXPECT_THAT(two.Find(RuleOf("adam", {}), 0.1).why_not, HasSubstr("'Adam' and 'SGD'"));
}

FileOfTest NamedAdam(const std::string& name) {
  FileOfTest file(WeightFileKind::kLegacyHdf5);
  for (const char* slot : {"m", "v"}) {
    for (const char* variable : {"d/kernel", "d/bias"}) {
      file.AddState(absl::StrCat(name, "/", slot, "/", variable), Pair(1, 2));
    }
  }
  return file;
}

TEST(OptimizerState, ACounterOfStepsIsCheckedBeforeItCounts) {
  const auto rule = RuleOf("adam", {});
  EXPECT_EQ(NamedAdam("Adam").AddState("iteration", Count(5)).Find(rule, 0.1).state->step, 5);
  for (const Tensor& wrong : {Count(-1), Count(int64_t{1} << 60), Tensor::Scalar(5.0F),
                              Tensor::FromVector<int64_t>({1, 2}, Shape{2})}) {
    const auto found = NamedAdam("Adam").AddState("iteration", wrong).Find(rule, 0.1);
    EXPECT_FALSE(found.state.has_value());
    EXPECT_THAT(found.why_not, HasSubstr("how many steps"));
  }
}

TEST(OptimizerState, AnotherOptimizersStateIsNotTaken) {
  const auto other = NamedAdam("Nadam").AddState("iteration", Count(5)).Find(RuleOf("adam", {}), 0);
  EXPECT_EQ(other.why_not, "the file's optimizer is 'Nadam', the job's rule is adam");
  // A name that a person has chosen says nothing, unless the file says the class.
  EXPECT_FALSE(NamedAdam("mine").AddState("iteration", Count(5)).Find(RuleOf("adam", {}), 0).state);
  FileOfTest named = NamedAdam("mine");
  named.AddState("iteration", Count(5)).texts().training_config =
      R"({"optimizer_config": {"class_name": "AdamW", "config": {}}})";
  EXPECT_TRUE(named.Find(RuleOf("adam", {}), 0).state.has_value());
}

TEST(OptimizerState, AMissingSlotOrOneOfAnotherShapeLeavesAll) {
  const auto missing =
      NamedAdam("Adam").AddState("iteration", Count(5)).Find(RuleOf("adam", {{"amsgrad", 1}}), 0.1);
  EXPECT_FALSE(missing.state.has_value());
  EXPECT_EQ(missing.why_not,
            "the file has no slot vhat of the variable d/kernel, which adam needs");
  FileOfTest other(WeightFileKind::kLegacyHdf5);
  other.AddState("Lion/m/d/kernel", Tensor::Zeros(DType::kFloat32, Shape{3}));
  EXPECT_THAT(other.Find(RuleOf("lion", {}), 0.1).why_not, HasSubstr("is [3]"));
}

TEST(OptimizerState, AMovingAverageMayBeMissing) {
  const auto rule = RuleOf("adam", {{"use_ema", 1}});
  FileOfTest file = NamedAdam("Adam");
  file.AddState("iteration", Count(5));
  const auto without = file.Find(rule, 0.1);
  ASSERT_TRUE(without.state.has_value()) << without.why_not;
  EXPECT_EQ(without.state->slots.size(), 4);
  for (const char* variable : {"d/kernel", "d/bias"}) {
    file.AddState(absl::StrCat("Adam/average/", variable), Pair(8, 9));
  }
  const auto with = file.Find(rule, 0.1);
  ASSERT_TRUE(with.state.has_value()) << with.why_not;
  EXPECT_THAT(file.Read(*with.state).at("d/bias:average"), ElementsAre(8, 9));
}

FileOfTest Numbered(const std::vector<Tensor>& values) {
  FileOfTest file(WeightFileKind::kKerasWeights);
  for (const Tensor& value : values) file.AddNumbered(value);
  return file;
}

TEST(OptimizerState, NumbersCountVariableByVariableOrSlotBySlotAsTheClassDoes) {
  const Tensor rate = Tensor::Scalar(0.5F);
  FileOfTest adam = Numbered({Count(9), rate, Pair(1, 1), Pair(2, 2), Pair(3, 3), Pair(4, 4)});
  const auto by_variable = adam.Find(RuleOf("adam", {}), 0.1);
  ASSERT_TRUE(by_variable.state.has_value()) << by_variable.why_not;
  EXPECT_EQ(by_variable.state->step, 9);
  EXPECT_THAT(adam.Read(*by_variable.state).at("d/kernel:v"), ElementsAre(2, 2));
  FileOfTest rmsprop = Numbered({Count(9), Pair(1, 1), Pair(2, 2), Pair(3, 3), Pair(4, 4)});
  const auto by_slot = rmsprop.Find(RuleOf("rmsprop", {{"momentum", 0.5}}), 0.1);
  ASSERT_TRUE(by_slot.state.has_value()) << by_slot.why_not;
  EXPECT_THAT(rmsprop.Read(*by_slot.state).at("d/kernel:momentum"), ElementsAre(3, 3));
}

TEST(OptimizerState, OtherNumbersThanTheSlotsAreNotTaken) {
  const auto more = Numbered({Count(9), Pair(1, 1), Pair(2, 2), Pair(3, 3)})
                        .Find(RuleOf("sgd", {{"momentum", 0.9}}), 0.1);
  EXPECT_EQ(more.why_not,
            "the optimizer has 4 values, and sgd of 2 trained variables has 2 slots beside the "
            "step and the learning rate");
  EXPECT_THAT(Numbered({Pair(1, 1), Pair(2, 2), Pair(3, 3)})
                  .Find(RuleOf("sgd", {{"momentum", 0.9}}), 0.1)
                  .why_not,
              HasSubstr("first value"));
}

// Keras 2 writes the zeros of a momentum that it does not use.
TEST(OptimizerState, ARuleWithoutSlotsTakesTheStep) {
  const auto found = Numbered({Count(9), Pair(0, 0), Pair(0, 0)}).Find(RuleOf("sgd", {}), 0.1);
  ASSERT_TRUE(found.state.has_value()) << found.why_not;
  EXPECT_EQ(found.state->step, 9);
  EXPECT_TRUE(found.state->slots.empty());
}

TEST(OptimizerState, OfCohortsCheckpointsEverySlotIsKnown) {
  FileOfTest file(kCheckpoint);
  for (const char* name : {"d/kernel", "d/bias"}) {
    file.AddState(absl::StrCat(name, "/.OPTIMIZER_SLOT/lamb/m"), Pair(1, 2));
    file.AddState(absl::StrCat(name, "/.OPTIMIZER_SLOT/lamb/v"), Pair(3, 4));
  }
  file.Add(GlobalStep(), Count(7));
  const auto found = file.Find(RuleOf("lamb", {}), 0.1);
  ASSERT_TRUE(found.state.has_value()) << found.why_not;
  EXPECT_EQ(found.state->step, 7);
  EXPECT_THAT(file.Read(*found.state).at("d/bias:v"), ElementsAre(3, 4));
  EXPECT_FALSE(file.Find(RuleOf("adam", {}), 0.1).state.has_value());
}

// Every file of a pack, against the slots that Keras had.
class KerasStates : public testing::TestWithParam<std::pair<const char*, const char*>> {};

// Returns the variables of the golden model that are trained.
std::vector<proto::VariableLayout> TrainedLayouts(const json& golden) {
  const bool is_sgd = golden["optimizer"]["class_name"] == "SGD";
  const proto::UpdateRule rule = is_sgd ? RuleOf("sgd", {{"momentum", 0.9}}) : RuleOf("adam", {});
  std::vector<proto::VariableLayout> layouts;
  for (const json& slots : golden["slots"]) {
    const auto name =
        absl::StrCat(slots["layer"].get<std::string>(), "/", slots["name"].get<std::string>());
    const std::vector<int64_t> dims = slots["shape"];
    layouts.push_back(LayoutOf(name, Shape(absl::MakeConstSpan(dims)), rule));
  }
  return layouts;
}

// Returns each variable with the first weight of the file that has its value.
std::vector<TrainedVariable> TrainedIn(const WeightFile& file, const json& golden,
                                       const std::vector<proto::VariableLayout>& layouts) {
  std::vector<TrainedVariable> trained;
  for (const proto::VariableLayout& layout : layouts) {
    for (const json& weight : golden["weights"]) {
      const auto name =
          absl::StrCat(weight["layer"].get<std::string>(), "/", weight["name"].get<std::string>());
      if (name != layout.name()) continue;
      const std::vector<float> expected = weight["data"];
      for (size_t i = 0; i < file.entries.size(); ++i) {
        if (file.entries[i].role != WeightRole::kWeight) continue;
        const auto value = file.source->Read(i);
        if (!value.ok() || value->dtype() != DType::kFloat32) continue;
        const absl::Span<const float> floats = value->span<float>();
        if (std::vector<float>(floats.begin(), floats.end()) != expected) continue;
        trained.push_back({&layout, {trained.size(), i, {}}});
        break;
      }
    }
  }
  return trained;
}

void ExpectState(const WeightFile& file, const json& golden) {
  const std::vector<proto::VariableLayout> layouts = TrainedLayouts(golden);
  const std::vector<TrainedVariable> trained = TrainedIn(file, golden, layouts);
  ASSERT_EQ(trained.size(), layouts.size());
  const auto found = FindOptimizerState(file, trained, 0.01);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->state.has_value()) << found->why_not;
  EXPECT_EQ(found->state->step, golden["iterations"].get<int64_t>());
  const bool is_sgd = golden["optimizer"]["class_name"] == "SGD";
  EXPECT_EQ(found->state->slots.size(), layouts.size() * (is_sgd ? 1 : 2));
  for (const FoundSlot& slot : found->state->slots) {
    const auto content = ReadSlot(file, trained[slot.variable], slot);
    ASSERT_TRUE(content.ok()) << content.status();
    const std::string key = slot.slot == "momentum" ? "m" : slot.slot;
    const absl::Span<const float> floats = content->span<float>();
    EXPECT_EQ(std::vector<float>(floats.begin(), floats.end()),
              golden["slots"][slot.variable][key].get<std::vector<float>>())
        << layouts[slot.variable].name() << " " << slot.slot;
  }
}

TEST_P(KerasStates, EverySlotIsThatOfKeras) {
  MemoryFileSystem disk;
  const auto pack =
      absl::StrCat(COHORT_SOURCE_DIR "/tests/golden/models/restore_", GetParam().first, ".zip");
  for (const auto& [path, bytes] : FilesOf(pack)) {
    ASSERT_TRUE(disk.MakeDirectories(DirectoryOf(path)).ok());
    ASSERT_TRUE(WriteFileAtomically(disk, path, bytes).ok());
  }
  const json golden = json::parse(FileOf(pack, absl::StrCat(GetParam().second, ".json")));
  for (const json& one : golden["files"]) {
    SCOPED_TRACE(one["file"]);
    const auto file = OpenWeights(disk, one["file"]);
    ASSERT_TRUE(file.ok()) << file.status();
    // What Keras 3 exports has no optimizer.
    if (one["file"] == "saved_variables/variables" && std::string(GetParam().first) == "k3.15") {
      continue;
    }
    ExpectState(*file, golden);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KerasStates, testing::ValuesIn(RestoredModels()));

TEST(KerasSlots, NamesOfOptimizersAreThoseThatKerasMakesOfTheClasses) {
  for (const char* name : {"Adam", "AdamW", "adam", "adam_w", "adamw_2", "Adam_1"}) {
    EXPECT_EQ(OpOfKerasOptimizer(name), "adam") << name;
  }
  EXPECT_EQ(OpOfKerasOptimizer("RMSprop"), "rmsprop");
  EXPECT_EQ(OpOfKerasOptimizer("SGD"), "sgd");
  for (const char* name : {"", "_1", "7", "Lamb", "mine"}) {
    EXPECT_EQ(OpOfKerasOptimizer(name), "") << name;
  }
}

// A slot that a rule has and this table lacks would begin anew without a word.
TEST(KerasSlots, EverySlotOfARuleIsListed) {
  const std::map<std::string, double> all = {{"momentum", 0.5},
                                             {"centered", 1},
                                             {"amsgrad", 1},
                                             {"use_ema", 1},
                                             {"gradient_accumulation_steps", 4}};
  for (const char* op :
       {"sgd", "adam", "nadam", "adamax", "rmsprop", "adagrad", "ftrl", "adadelta", "lion"}) {
    std::map<std::string, double> parameters;
    for (const RuleParameter& parameter : ParametersOf(op)) {
      if (const auto found = all.find(parameter.name); found != all.end()) {
        parameters.insert(*found);
      }
    }
    const proto::UpdateRule rule = RuleOf(op, parameters);
    const auto spec = DescribeUpdateRule(rule);
    ASSERT_TRUE(spec.ok()) << spec.status();
    std::vector<std::string> ours;
    for (const SlotSpec& slot : spec->slots) ours.push_back(slot.name);
    std::vector<std::string> listed;
    const auto groups = KerasSlotsOf(rule);
    ASSERT_TRUE(groups.has_value()) << op;
    for (const auto& group : *groups) {
      for (const KerasSlot& slot : group) listed.push_back(slot.slot);
    }
    EXPECT_THAT(listed, testing::UnorderedElementsAreArray(ours)) << op;
  }
}

}  // namespace
}  // namespace cohort
