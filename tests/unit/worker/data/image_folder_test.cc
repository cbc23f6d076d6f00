// Directories of images against what Keras's image_dataset_from_directory made of the same files
// (tests/golden/preprocessing/make_images.py).

#include "worker/data/image_folder.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/base/temporary_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/world/memory_file_system.h"
#include "worker/data/dataset.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ImageFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/preprocessing/image_directory.json");
    golden_ = json::parse(file);
    for (const auto& [path, coded] : golden_.at("files").items()) {
      std::string bytes;
      ASSERT_TRUE(absl::Base64Unescape(coded.get<std::string>(), &bytes));
      Put("/images/" + path, bytes);
    }
  }
  void Put(const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(files_.MakeDirectories(DirectoryOf(path)).ok());
    ASSERT_TRUE(WriteFileAtomically(files_, path, bytes).ok());
  }

  // Makes the data set of a golden case, in one batch.
  static proto::DatasetSpec SpecOf(const json& config) {
    proto::DatasetSpec spec;
    proto::ImageFolder& folder = *spec.mutable_source()->mutable_image_folder();
    folder.set_directory("images");
    for (const json& name : config.value("class_names", json::array())) {
      folder.add_class_names(name.get<std::string>());
    }
    proto::Map& map = *spec.add_transforms()->mutable_map();
    map.add_inputs("image");
    map.mutable_decode_image()->set_height(4);
    map.mutable_decode_image()->set_width(5);
    map.mutable_decode_image()->set_channels(config.contains("color_mode") ? 1 : 3);
    map.mutable_decode_image()->set_interpolation(config.value("interpolation", "bilinear"));
    spec.add_transforms()->mutable_batch()->set_size(100);
    return spec;
  }

  std::string ErrorOf(const proto::DatasetSpec& spec) {
    const auto dataset = Dataset::Build(spec, sources_);
    if (!dataset.ok()) return std::string(dataset.status().message());
    return std::string((*dataset)->ElementAt({}).status().message());
  }

  json golden_;
  MemoryFileSystem files_;
  SourceCache sources_{files_, "/"};
};

TEST_F(ImageFolderTest, ImagesAndLabelsAreThoseOfKeras) {
  ASSERT_EQ(golden_.at("cases").size(), 4u);
  for (const json& one : golden_.at("cases")) {
    SCOPED_TRACE(one.at("config").dump());
    const auto dataset = Dataset::Build(SpecOf(one.at("config")), sources_);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    const auto batch = (*dataset)->ElementAt({});
    ASSERT_TRUE(batch.ok()) << batch.status();
    const auto labels = (*batch)[1].span<int64_t>();
    EXPECT_EQ(std::vector<int64_t>(labels.begin(), labels.end()),
              one.at("labels").get<std::vector<int64_t>>());
    const auto pixels = (*batch)[0].span<float>();
    size_t at = 0;
    for (const json& image : one.at("images")) {
      for (const json& pixel : image) EXPECT_NEAR(pixels[at++], pixel.get<float>(), 1e-4f) << at;
    }
    EXPECT_EQ(at, pixels.size());
  }
}

TEST_F(ImageFolderTest, WhatCannotBeReadIsNamed) {
  proto::DatasetSpec spec = SpecOf(json::object());
  spec.mutable_source()->mutable_image_folder()->add_class_names("z");
  EXPECT_THAT(ErrorOf(spec),
              HasSubstr("/images: has no directory of the class 'z'; it has C, a, b"));
  spec = SpecOf(json::object());
  spec.mutable_source()->mutable_image_folder()->set_directory("images/a");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("/images/a: has no .jpg, .jpeg or .png file"));
  spec = SpecOf(json::object());
  Put("/images/a/cut.png", "\x89PNG\r\n\x1a\n");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("/images/a/cut.png: column 'image'"));
  Put("/images/a/moving.gif", "GIF89a");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("/images/a/moving.gif: GIF and BMP are not read"));
  spec.mutable_source()->mutable_image_folder()->set_directory("none");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("/none"));
}

}  // namespace
}  // namespace cohort
