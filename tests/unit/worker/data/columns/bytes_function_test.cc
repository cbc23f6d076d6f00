// Pad, DecodeImage and DecodeRaw: TensorFlow's values are those of RaggedTensor.to_tensor and of
// tf.io.decode_raw's documentation; images are those that common/images makes, whose tests compare
// them with TensorFlow's.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/images/decode_image.h"
#include "common/images/resize_image.h"
#include "common/tensor/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/columns/make_column_function.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Applies the map to the only column "x", and returns the column that is made.
absl::StatusOr<DataColumn> Apply(const proto::Map& map, DataColumn column, int64_t rows,
                                 int64_t* row = nullptr) {
  ColumnBatch batch;
  batch.rows = rows;
  std::vector<ColumnSpec> specs = {column.spec};
  batch.columns.push_back(std::move(column));
  auto function = MakeColumnFunction(map, specs);
  if (!function.ok()) return function.status();
  int64_t failed = 0;
  const absl::Status status = (*function)->Apply(batch, row != nullptr ? row : &failed);
  if (!status.ok()) return status;
  EXPECT_EQ(specs[0].TypeText(), batch.columns[0].spec.TypeText());
  // The text of padding is the function's own, which ends here.
  for (auto& text : batch.columns[0].values.strings) text = text == "-" ? "-" : text;
  return std::move(batch.columns[0]);
}

proto::Map MapOf() {
  proto::Map map;
  map.add_inputs("x");
  return map;
}

DataColumn Ragged(proto::ColumnType type, ColumnValues values, Shape shape = {}) {
  ColumnSpec spec{"x", type, std::move(shape), /*varies=*/true};
  return {spec, std::move(values), {0, 1, 1, 4}};
}

TEST(Pad, CutsAndPadsEachRecord) {
  proto::Map map = MapOf();
  map.mutable_pad()->set_length(2);
  auto ints = Apply(map, Ragged(proto::COLUMN_INT32, {.ints = {7, 1, 2, 3}}), 3);
  ASSERT_TRUE(ints.ok()) << ints.status();
  EXPECT_THAT(ints->values.ints, ElementsAre(7, 0, 0, 0, 1, 2));
  EXPECT_EQ(ints->spec.TypeText(), "int32[2]");
  map.mutable_pad()->mutable_value()->add_floats(-1);
  auto pairs = Apply(
      map, Ragged(proto::COLUMN_FLOAT32, {.floats = {7, 8, 1, 2, 3, 4, 5, 6}}, Shape({2})), 3);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_THAT(pairs->values.floats, ElementsAre(7, 8, -1, -1, -1, -1, -1, -1, 1, 2, 3, 4));
  EXPECT_EQ(pairs->spec.TypeText(), "float32[2,2]");
  map.mutable_pad()->mutable_value()->Clear();
  map.mutable_pad()->mutable_value()->add_strings("-");
  auto texts = Apply(map, Ragged(proto::COLUMN_STRING, {.strings = {"a", "b", "c", "d"}}), 3);
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_THAT(texts->values.strings, ElementsAre("a", "-", "-", "-", "b", "c"));
  EXPECT_THAT(Apply(map, Ragged(proto::COLUMN_INT64, {}), 3).status().message(),
              HasSubstr("Pad: column 'x' is int64[?]; it takes a value of its own type"));
  map.mutable_pad()->set_length(0);
  EXPECT_THAT(Apply(map, Ragged(proto::COLUMN_INT64, {}), 3).status().message(),
              HasSubstr("length must be 1 to"));
}

DataColumn Bytes(std::vector<absl::string_view> strings) {
  return {{"x", proto::COLUMN_STRING, Shape()}, {.strings = std::move(strings)}, {}};
}

TEST(DecodeRaw, TakesNumbersOfBothEndiannesses) {
  proto::Map map = MapOf();
  proto::DecodeRaw& raw = *map.mutable_decode_raw();
  raw.set_dtype(static_cast<int32_t>(DType::kInt32));
  raw.add_dims(2);
  const std::string one("\x01\0\0\0\xfe\xff\xff\xff", 8);
  auto little = Apply(map, Bytes({one}), 1);
  ASSERT_TRUE(little.ok()) << little.status();
  EXPECT_THAT(little->values.ints, ElementsAre(1, -2));
  raw.set_big_endian(true);
  EXPECT_THAT(Apply(map, Bytes({one}), 1)->values.ints, ElementsAre(0x01000000, -16777217));
  raw.set_dtype(static_cast<int32_t>(DType::kUint8));
  EXPECT_THAT(Apply(map, Bytes({"\xff\x02"}), 1)->values.ints, ElementsAre(255, 2));
  int64_t row = 0;
  EXPECT_THAT(Apply(map, Bytes({"ab", "abc"}), 2, &row).status().message(),
              HasSubstr("column 'x': it has 3 bytes; its type and shape need 2"));
  EXPECT_EQ(row, 1);
  raw.set_dtype(static_cast<int32_t>(DType::kBool));
  EXPECT_THAT(Apply(map, Bytes({"ab"}), 1).status().message(), HasSubstr("dtype must be uint8"));
  raw.set_dtype(static_cast<int32_t>(DType::kInt8));
  raw.set_dims(0, -3);
  EXPECT_THAT(Apply(map, Bytes({"ab"}), 1).status().message(), HasSubstr("extent -3"));
}

// A PNG of 2 x 1 gray pixels, 10 and 200 (made by libpng through Python's zlib and struct).
std::string GrayPng() {
  return std::string(
      "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x02\x00\x00"
      "\x00\x01\x08\x00\x00\x00\x00\xd1\x49\x20\x56\x00\x00\x00\x0b\x49\x44\x41\x54\x78\x9c\x63"
      "\xe0\x3a\x01\x00\x00\xdf\x00\xd3\x4b\x21\xa5\x49\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42"
      "\x60\x82",
      68);
}

TEST(DecodeImage, DecodesAndResizes) {
  proto::Map map = MapOf();
  proto::DecodeImage& image = *map.mutable_decode_image();
  image.set_channels(3);
  image.set_height(1);
  image.set_width(2);
  const std::string png = GrayPng();
  auto pixels = Apply(map, Bytes({png, png}), 2);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_EQ(pixels->spec.TypeText(), "float32[1,2,3]");
  EXPECT_THAT(pixels->values.floats,
              ElementsAre(10, 10, 10, 200, 200, 200, 10, 10, 10, 200, 200, 200));
  image.set_channels(1);
  image.set_width(4);
  EXPECT_THAT(Apply(map, Bytes({png}), 1)->values.floats, ElementsAre(10, 57.5f, 152.5f, 200));
  image.set_interpolation("nearest");
  EXPECT_THAT(Apply(map, Bytes({png}), 1)->values.floats, ElementsAre(10, 10, 200, 200));
  int64_t row = 0;
  EXPECT_THAT(Apply(map, Bytes({png, "GIF89a"}), 2, &row).status().message(),
              HasSubstr("column 'x': "));
  EXPECT_EQ(row, 1);
  image.set_interpolation("lanczos3");
  EXPECT_THAT(Apply(map, Bytes({png}), 1).status().message(), HasSubstr("interpolation must be"));
  image.clear_interpolation();
  image.set_height(0);
  EXPECT_THAT(Apply(map, Bytes({png}), 1).status().message(), HasSubstr("height and width"));
}

}  // namespace
}  // namespace cohort
