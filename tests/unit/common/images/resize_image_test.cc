// Values of tf.image.resize in TensorFlow 2.21 (the rows image/* of its golden values).

#include "common/images/resize_image.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor Image(const std::vector<float>& values, int64_t rows, int64_t columns) {
  return Tensor::FromVector<float>(values, {rows, columns, 1});
}

std::vector<float> Resized(const Tensor& image, int64_t rows, int64_t columns,
                           ResizeMethod method) {
  const auto resized = ResizeImage(image, rows, columns, method);
  EXPECT_TRUE(resized.ok()) << resized.status();
  const absl::Span<const float> values = resized->span<float>();
  return {values.begin(), values.end()};
}

TEST(ResizeImage, OfARowIsTensorFlows) {
  const Tensor row = Image({0, 10, 20, 40}, 1, 4);
  EXPECT_THAT(Resized(row, 1, 6, ResizeMethod::kBilinear),
              ElementsAre(0.0f, 5.0f, 11.666667938232422f, 18.333335876464844f, 30.0f, 40.0f));
  EXPECT_THAT(Resized(row, 1, 3, ResizeMethod::kBilinear),
              ElementsAre(1.666666865348816f, 15.0f, 36.66667175292969f));
  EXPECT_THAT(Resized(row, 1, 6, ResizeMethod::kNearest), ElementsAre(0, 10, 10, 20, 40, 40));
  EXPECT_THAT(Resized(row, 1, 3, ResizeMethod::kNearest), ElementsAre(0, 20, 40));
  EXPECT_THAT(Resized(row, 1, 6, ResizeMethod::kBicubic),
              ElementsAre(-0.6588883399963379f, 4.117647171020508f, 11.553773880004883f,
                          17.750696182250977f, 31.176471710205078f, 41.31777572631836f));
  EXPECT_THAT(Resized(row, 1, 3, ResizeMethod::kBicubic),
              ElementsAre(1.0308171510696411f, 14.375f, 37.828575134277344f));
}

TEST(ResizeImage, OfBothAxesIsTensorFlows) {
  std::vector<float> squares;
  for (int i = 0; i < 12; ++i) squares.push_back(static_cast<float>(i * i));
  const Tensor image = Image(squares, 3, 4);
  EXPECT_THAT(Resized(image, 2, 3, ResizeMethod::kBilinear),
              ElementsAre(4.5f, 9.5f, 17.833335876464844f, 54.5f, 75.5f, 99.83333587646484f));
  const std::vector<float> five = Resized(image, 5, 5, ResizeMethod::kBilinear);
  EXPECT_THAT(
      std::vector<float>(five.begin(), five.begin() + 10),
      ElementsAre(0.0f, 0.7000000476837158f, 2.5f, 5.5f, 9.0f, 6.40000057220459f, 9.34000015258789f,
                  13.700000762939453f, 19.260000228881836f, 25.000001907348633f));
}

TEST(ResizeImage, OfPixelsGivesFloatsThatKeras3Rounds) {
  const Tensor row = Tensor::FromVector<uint8_t>({0, 10, 20, 40}, {1, 4, 1});
  const auto resized = ResizeImage(row, 1, 6, ResizeMethod::kBilinear);
  ASSERT_TRUE(resized.ok());
  EXPECT_THAT(RoundToPixels(*resized).span<uint8_t>(), ElementsAre(0, 5, 12, 18, 30, 40));
  EXPECT_EQ(ResizeImage(row, 1, 6, ResizeMethod::kNearest)->dtype(), DType::kUint8);
  EXPECT_THAT(RoundToPixels(Image({-3, 0.5, 1.5, 999}, 1, 4)).span<uint8_t>(),
              ElementsAre(0, 0, 2, 255));
}

TEST(CropImage, TakesARectangle) {
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) values.push_back(static_cast<float>(i));
  EXPECT_THAT(CropImage(Image(values, 4, 6), 1, 1, 2, 3).span<float>(),
              ElementsAre(7, 8, 9, 13, 14, 15));
}

TEST(ResizeImage, WhatIsNoImageIsRefused) {
  const auto error = [](const Tensor& image, int64_t rows) {
    return std::string(ResizeImage(image, rows, 1, ResizeMethod::kBilinear).status().message());
  };
  EXPECT_THAT(error(Tensor(DType::kInt32, {1, 1, 1}), 1), HasSubstr("no image"));
  EXPECT_THAT(error(Tensor(DType::kUint8, {1, 1}), 1), HasSubstr("no image"));
  EXPECT_THAT(error(Tensor(DType::kUint8, {0, 1, 1}), 1), HasSubstr("no image"));
  EXPECT_THAT(error(Tensor(DType::kUint8, {1, 1, 1}), 0), HasSubstr("resized to 0 x 1"));
}

}  // namespace
}  // namespace cohort
