#include "common/formats/weights/keras_writer.h"

#include "absl/strings/str_cat.h"
#include "common/formats/weights/open_weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<KerasGroup> Groups() {
  return {{"", "m"},
          {"layers/lstm", "l"},
          {"layers/lstm/cell", "lstm_cell", {Tensor::Scalar<float>(2), Tensor::Scalar<float>(3)}}};
}

TEST(KerasWriter, WhatIsWrittenIsReadAgain) {
  MemoryFileSystem disk;
  ASSERT_TRUE(WriteKerasWeights(disk, "m.weights.h5", Groups()).ok());
  const KerasTexts texts = {R"({"class_name": "Sequential"})", R"({"keras_version": "3.1.0"})"};
  ASSERT_TRUE(WriteKerasArchive(disk, "m.keras", texts, Groups()).ok());
  for (const auto& [path, kind] : {std::pair("m.weights.h5", WeightFileKind::kKerasWeights),
                                   std::pair("m.keras", WeightFileKind::kKerasArchive)}) {
    const auto file = OpenWeights(disk, path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->kind, kind);
    ASSERT_EQ(file->entries.size(), 2u);
    EXPECT_EQ(file->entries[1].name, "layers/lstm/cell/vars/1");
    EXPECT_EQ(file->entries[1].layer, "l");
    const auto value = file->source->Read(1);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_THAT(value->span<float>(), ElementsAre(3));
  }
  EXPECT_EQ(OpenWeights(disk, "m.keras")->texts.config, texts.config);
  EXPECT_EQ(OpenWeights(disk, "m.keras")->texts.keras_version, "3.1.0");
}

TEST(KerasWriter, APlaceThatIsGivenTwiceOrHasNoNameIsRefused) {
  MemoryFileSystem disk;
  for (const char* path : {"layers/lstm", "layers//dense"}) {
    std::vector<KerasGroup> groups = Groups();
    groups.push_back({path});
    for (const absl::Status& status : {WriteKerasWeights(disk, "m.weights.h5", groups),
                                       WriteKerasArchive(disk, "m.keras", KerasTexts(), groups)}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status));
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    }
  }
  EXPECT_FALSE(disk.Open("m.weights.h5").ok());
}

}  // namespace
}  // namespace cohort
