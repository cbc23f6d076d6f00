#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/temporary_file.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/formats/safetensors.h"
#include "coordinator/inspect/checkpoint_diff.h"
#include "coordinator/inspect/inspect_command.h"
#include "coordinator/inspect/value_names.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor Floats(std::vector<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::FromVector<float>(std::move(values), {count});
}

class CheckpointCommands : public testing::Test {
 protected:
  void Write(const std::string& path, const std::vector<NamedTensor>& tensors) {
    ASSERT_TRUE(WriteSafetensors(files, path, tensors, {}).ok());
  }

  InspectResult Run(std::vector<std::string> words) {
    words.insert(words.begin(), "checkpoint");
    return RunInspect(words, files);
  }

  MemoryFileSystem files;
};

TEST_F(CheckpointCommands, ShowListsNamesTypesShapesAndBytes) {
  Write("w.safetensors", {{"d/kernel", Tensor::Zeros(DType::kFloat32, {2, 3})},
                          {"step", Tensor::Scalar<int64_t>(7)},
                          {"d\x1b[2J\n", Tensor::Zeros(DType::kBool, {0})}});
  const InspectResult shown = Run({"show", "w.safetensors"});
  EXPECT_EQ(shown.error, "");
  EXPECT_EQ(shown.output, R"(safetensors
Name          Type     Shape  Bytes #
-------------------------------------
step          int64    []           8
d/kernel      float32  [2,3]       24
d\x1b[2J\x0a  bool     [0]          0

3 values, 32 bytes (32.00 B)
)");
  const InspectResult missing = Run({"show", "none"});
  EXPECT_EQ(missing.code, kExitBadConfig);
  EXPECT_THAT(missing.error, HasSubstr("none"));
  ASSERT_TRUE(WriteFileAtomically(files, "text", "hello").ok());
  EXPECT_THAT(Run({"show", "text"}).error, HasSubstr("unknown format of weights"));
}

TEST_F(CheckpointCommands, DiffOfEqualFilesIsZero) {
  Write("a.safetensors", {{"w", Floats({1, NAN, 0})}});
  Write("b.safetensors", {{"w", Floats({1, NAN, -0.0f})}});
  const InspectResult diff = Run({"diff", "a.safetensors", "b.safetensors"});
  EXPECT_EQ(diff.code, kExitOk);
  EXPECT_EQ(diff.output, "1 equal, 0 different, 0 only in A, 0 only in B, 0 not compared\n");
}

TEST_F(CheckpointCommands, DiffNamesEveryDifferenceAndEndsWithOne) {
  Write("a.safetensors", {{"a", Floats({1})},
                          {"s", Floats({1, 2})},
                          {"t", Floats({1, 2})},
                          {"v", Tensor::FromVector<float>({1, 2, 3, 4}, {2, 2})},
                          {"w", Floats({5})}});
  Write("b.safetensors", {{"b", Floats({1})},
                          {"s", Floats({1, 2, 3})},
                          {"t", Tensor::FromVector<double>({1, 2}, {2})},
                          {"v", Tensor::FromVector<float>({1, 2.5, 2, 4}, {2, 2})},
                          {"w", Floats({5})}});
  const InspectResult diff = Run({"diff", "a.safetensors", "b.safetensors"});
  EXPECT_EQ(diff.code, kExitJobFailed);
  EXPECT_EQ(diff.output,
            "a: only in A, float32[1]\n"
            "s: float32[2] in A, float32[3] in B\n"
            "t: float32[2] in A, float64[2] in B; all elements are equal\n"
            "v: largest absolute difference 1 at [1,0]: 3 in A, 2 in B\n"
            "b: only in B, float32[1]\n"
            "1 equal, 3 different, 1 only in A, 1 only in B, 0 not compared\n");
  EXPECT_EQ(Run({"diff", "a.safetensors", "none"}).code, kExitBadConfig);
}

TEST_F(CheckpointCommands, HalvesAreComparedAsNumbers) {
  Tensor one(DType::kFloat16, {1}), half(DType::kFloat16, {1});
  const uint16_t bits_of_one = 0x3c00, bits_of_half = 0x3800;
  std::memcpy(one.mutable_raw(), &bits_of_one, 2);
  std::memcpy(half.mutable_raw(), &bits_of_half, 2);
  Write("a.safetensors", {{"w", one}});
  Write("b.safetensors", {{"w", half}});
  EXPECT_THAT(Run({"diff", "a.safetensors", "b.safetensors"}).output,
              HasSubstr("largest absolute difference 0.5 at [0]: 1 in A, 0.5 in B"));
}

TEST(CompareValues, NaNInfinityAndLargeIntegers) {
  const double infinity = std::numeric_limits<double>::infinity();
  LargestDifference largest = CompareValues(Floats({1, 2}), Floats({9, NAN}));
  EXPECT_EQ(largest.difference, infinity);
  EXPECT_EQ(largest.element, 1);
  const auto inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(CompareValues(Floats({inf}), Floats({inf})).element, -1);
  EXPECT_EQ(CompareValues(Floats({inf}), Floats({-inf})).difference, infinity);
  // A double cannot tell these two apart.
  const int64_t large = (int64_t{1} << 60) + 1;
  largest = CompareValues(Tensor::Scalar<int64_t>(large), Tensor::Scalar<int64_t>(large - 1));
  EXPECT_EQ(largest.difference, 1);
  // The largest difference lies behind the first chunk.
  std::vector<float> many(10000, 0);
  const Tensor zeros = Floats(many);
  many[9000] = -3;
  many[10] = 2;
  largest = CompareValues(zeros, Floats(many));
  EXPECT_EQ(largest.element, 9000);
  EXPECT_EQ(largest.difference, 3);
}

TEST_F(CheckpointCommands, ConvertGoesThroughEveryKindAndKeepsTheValues) {
  Write("a.safetensors", {{"d/kernel", Tensor::FromVector<float>({1, 2, 3, 4}, {2, 2})},
                          {"step", Tensor::Scalar<int64_t>(7)}});
  EXPECT_EQ(Run({"convert", "a.safetensors", "model.ckpt-7"}).output,
            "wrote model.ckpt-7 (TensorFlow checkpoint): 2 values\n");
  EXPECT_EQ(Run({"convert", "model.ckpt-7", "b.npz"}).output, "wrote b.npz (npz): 2 values\n");
  EXPECT_EQ(Run({"convert", "b.npz", "c.safetensors"}).output,
            "wrote c.safetensors (safetensors): 2 values\n");
  for (const char* other : {"model.ckpt-7", "b.npz", "c.safetensors"}) {
    const InspectResult diff = Run({"diff", "a.safetensors", other});
    EXPECT_EQ(diff.code, kExitOk) << other << ": " << diff.output << diff.error;
    EXPECT_THAT(diff.output, HasSubstr("2 equal"));
  }
}

TEST_F(CheckpointCommands, ConvertRefusesWhatItCannotWrite) {
  Write("a.safetensors", {{"w", Floats({1})}});
  for (const char* to : {"w.h5", "w.keras", "w.onnx", "w.npy", "w.pt", ".ckpt/"}) {
    const InspectResult refused = Run({"convert", "a.safetensors", to});
    EXPECT_EQ(refused.code, kExitBadConfig) << to;
    EXPECT_THAT(refused.error, HasSubstr("has an ending that is not written")) << to;
  }
  const InspectResult there = Run({"convert", "a.safetensors", "a.safetensors"});
  EXPECT_EQ(there.code, kExitBadConfig);
  EXPECT_THAT(there.error, HasSubstr("'a.safetensors' is there already"));
  ASSERT_EQ(Run({"convert", "a.safetensors", "ckpt-1"}).code, kExitOk);
  EXPECT_THAT(Run({"convert", "a.safetensors", "ckpt-1.index"}).error,
              HasSubstr("'ckpt-1.index' is there already"));
  Write("half.safetensors", {{"w", Tensor::Zeros(DType::kBfloat16, {1})}});
  const InspectResult half = Run({"convert", "half.safetensors", "half.npz"});
  EXPECT_EQ(half.code, kExitBadConfig);
  EXPECT_THAT(half.error, HasSubstr("'w'"));
  EXPECT_FALSE(files.Open("half.npz").ok());
}

TEST_F(CheckpointCommands, ListShowsTheCheckpointsOfADirectoryAndTheFilesOfOne) {
  ASSERT_TRUE(files.MakeDirectories("/run").ok());
  EXPECT_EQ(Run({"list", "/run"}).output, "/run has no checkpoints\n");
  Write("/a.safetensors", {{"w", Floats({1})}});
  ASSERT_EQ(Run({"convert", "/a.safetensors", "/run/ckpt-1"}).code, kExitOk);
  ASSERT_EQ(Run({"convert", "/a.safetensors", "/run/ckpt-2"}).code, kExitOk);
  ASSERT_TRUE(WriteCheckpointState(files, "/run", {"/run/ckpt-2", {"/run/ckpt-2"}}).ok());
  ASSERT_TRUE(files.Remove("/run/ckpt-1.data-00000-of-00001").ok());
  const InspectResult listed = Run({"list", "/run"});
  EXPECT_EQ(listed.code, kExitOk);
  EXPECT_THAT(listed.output, testing::ContainsRegex("ckpt-1 +\\? +\\?  cannot be opened: "));
  EXPECT_THAT(listed.output, testing::ContainsRegex("ckpt-2 +1 +[0-9]+  latest\n"));
  for (const char* prefix : {"/run/ckpt-2", "/run/ckpt-2.index"}) {
    EXPECT_THAT(Run({"list", prefix}).output,
                testing::ContainsRegex("ckpt-2.data-00000-of-00001 +4\nckpt-2.index +[0-9]+\n"));
  }
  const InspectResult missing = Run({"list", "/run/ckpt-3"});
  EXPECT_EQ(missing.code, kExitBadConfig);
  EXPECT_THAT(missing.error, HasSubstr("neither a directory nor the prefix of a checkpoint"));
}

TEST(ValueNames, AVariablesNameCountsOnlyIfItIsUnique) {
  WeightFile file;
  const auto add = [&](const std::string& name, const std::string& variable) {
    WeightEntry entry;
    entry.name = name;
    entry.variable = variable;
    file.entries.push_back(entry);
  };
  add("layers/d/vars/0", "d/kernel");
  add("layers/e/vars/0", "");
  add("x", "twice");
  add("y", "twice");
  add("z", "x");
  add("same", "same");
  EXPECT_THAT(VariableNames(file),
              ElementsAre("d/kernel", "layers/e/vars/0", "x", "y", "z", "same"));
}

}  // namespace
}  // namespace cohort
