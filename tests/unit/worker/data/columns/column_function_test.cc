// Values that Keras 3.15 gave (the rows layers/* and strings/* of its golden values).

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensor/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/columns/make_column_function.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

ColumnBatch BatchOf(ColumnSpec spec, ColumnValues values, std::vector<int64_t> splits = {}) {
  ColumnBatch batch;
  const int64_t size = spec.shape.num_elements();
  batch.rows = spec.varies ? static_cast<int64_t>(splits.size()) - 1
                           : static_cast<int64_t>(values.size()) / size;
  batch.columns.push_back({std::move(spec), std::move(values), std::move(splits)});
  return batch;
}

// Applies the map to the batch's only column "x". An error is that of making or of applying it.
absl::Status Apply(const proto::Map& map, ColumnBatch& batch, int64_t* row = nullptr) {
  std::vector<ColumnSpec> specs;
  for (const DataColumn& column : batch.columns) specs.push_back(column.spec);
  const auto function = MakeColumnFunction(map, specs);
  if (!function.ok()) return function.status();
  int64_t failed = 0;
  absl::Status status = (*function)->Apply(batch, row != nullptr ? row : &failed);
  if (!status.ok()) return status;
  // The types that Make() promised are those of the columns.
  EXPECT_EQ(specs.size(), batch.columns.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(specs[i].name, batch.columns[i].spec.name);
    EXPECT_EQ(specs[i].TypeText(), batch.columns[i].spec.TypeText());
  }
  return status;
}

proto::Map MapOf(const std::string& output = "") {
  proto::Map map;
  map.add_inputs("x");
  map.set_output(output);
  return map;
}

ColumnSpec Floats(Shape shape = {}) { return {"x", proto::COLUMN_FLOAT32, std::move(shape)}; }
ColumnSpec Ints(Shape shape = {}) { return {"x", proto::COLUMN_INT64, std::move(shape)}; }
ColumnSpec Texts() { return {"x", proto::COLUMN_STRING, Shape()}; }

TEST(ColumnFunction, DiscretizationIsThatOfKeras) {
  proto::Map map = MapOf();
  for (const float boundary : {0.0f, 1.0f, 2.0f})
    map.mutable_discretization()->add_boundaries(boundary);
  ColumnBatch batch = BatchOf(Floats(), {.floats = {-1, 0, .5f, 1, 1.5f, 2, 3, NAN}});
  ASSERT_TRUE(Apply(map, batch).ok());
  EXPECT_THAT(batch.columns[0].values.ints, ElementsAre(0, 1, 1, 2, 2, 3, 3, 3));
  map.mutable_discretization()->add_boundaries(-1);
  EXPECT_THAT(Apply(map, batch).message(), HasSubstr("bin_boundaries do not ascend"));
}

TEST(ColumnFunction, NormalizationIsThatOfKeras) {
  proto::Map map = MapOf();
  map.mutable_normalization()->add_mean(2.5f);
  map.mutable_normalization()->add_variance(2.5f);
  ColumnBatch one = BatchOf(Ints(), {.ints = {1, 2, 3, 4}});
  ASSERT_TRUE(Apply(map, one).ok());
  EXPECT_THAT(one.columns[0].values.floats[0], FloatEq(-1.5f / std::sqrt(2.5f)));
  map = MapOf("normal");
  for (const float mean : {3.0f, 25.0f}) map.mutable_normalization()->add_mean(mean);
  for (const float variance : {0.0f, 225.0f}) map.mutable_normalization()->add_variance(variance);
  ColumnBatch two = BatchOf(Floats(Shape({2})), {.floats = {3, 10, 4, 40}});
  ASSERT_TRUE(Apply(map, two).ok());
  // A column without variance is divided by 1e-7, as in Keras.
  EXPECT_THAT(two.columns[1].values.floats, ElementsAre(0.0f, -1.0f, FloatEq(1e7f), 1.0f));
  EXPECT_EQ(two.columns[1].spec.name, "normal");
  // A mean for each number of the last axis, to which the layer adapts by default.
  ColumnBatch pairs = BatchOf(Floats(Shape({2, 2})), {.floats = {3, 10, 3, 40}});
  ASSERT_TRUE(Apply(map, pairs).ok());
  EXPECT_THAT(pairs.columns[1].values.floats, ElementsAre(0.0f, -1.0f, 0.0f, 1.0f));
  ColumnBatch three = BatchOf(Floats(Shape({3})), {.floats = {1, 2, 3}});
  EXPECT_THAT(Apply(map, three).message(), HasSubstr("one for each of a record's 3"));
}

TEST(ColumnFunction, CategoryEncodingIsThatOfKeras) {
  proto::Map map = MapOf();
  map.mutable_category_encoding()->set_tokens(4);
  const auto encoded = [&](const std::string& mode, ColumnBatch batch) {
    map.mutable_category_encoding()->set_mode(mode);
    const absl::Status status = Apply(map, batch);
    EXPECT_TRUE(status.ok()) << status;
    return batch.columns[0].values.floats;
  };
  const auto pairs = [] { return BatchOf(Ints(Shape({2})), {.ints = {0, 1, 0, 0}}); };
  EXPECT_THAT(encoded("multi_hot", pairs()), ElementsAre(1, 1, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(encoded("count", pairs()), ElementsAre(1, 1, 0, 0, 2, 0, 0, 0));
  EXPECT_THAT(encoded("one_hot", pairs()),
              ElementsAre(1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(encoded("one_hot", BatchOf(Ints(), {.ints = {3, 0}})),
              ElementsAre(0, 0, 0, 1, 1, 0, 0, 0));
  ColumnSpec varies = Ints();
  varies.varies = true;
  EXPECT_THAT(encoded("count", BatchOf(varies, {.ints = {1, 1, 3}}, {0, 2, 2, 3})),
              ElementsAre(0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
  int64_t row = 0;
  ColumnBatch bad = BatchOf(Ints(), {.ints = {1, 4}});
  EXPECT_THAT(Apply(map, bad, &row).message(), HasSubstr("category 4, and num_tokens is 4"));
  EXPECT_EQ(row, 1);
}

TEST(ColumnFunction, CastsCutFractionsOffAndRefuseWhatDoesNotFit) {
  proto::Map map = MapOf();
  map.set_cast(static_cast<uint32_t>(DType::kInt32));
  ColumnBatch batch = BatchOf(Floats(), {.floats = {1.9f, -1.9f}});
  ASSERT_TRUE(Apply(map, batch).ok());
  EXPECT_THAT(batch.columns[0].values.ints, ElementsAre(1, -1));
  for (const float bad : {3e9f, NAN, -INFINITY}) {
    int64_t row = 0;
    ColumnBatch refused = BatchOf(Floats(), {.floats = {0, bad}});
    EXPECT_THAT(Apply(map, refused, &row).message(), HasSubstr("is no int32")) << bad;
    EXPECT_EQ(row, 1);
  }
  ColumnBatch texts = BatchOf(Texts(), {.strings = {"1"}});
  EXPECT_THAT(Apply(map, texts).message(), HasSubstr("column 'x' is string[]; it takes numbers"));
}

TEST(ColumnFunction, NumbersAreScaledAndTakenTheLogarithmOf) {
  proto::Map map = MapOf();
  map.mutable_rescaling()->set_scale(0.5);
  map.mutable_rescaling()->set_offset(1);
  ColumnBatch batch = BatchOf(Ints(), {.ints = {2, -4}});
  ASSERT_TRUE(Apply(map, batch).ok());
  EXPECT_THAT(batch.columns[0].values.floats, ElementsAre(2, -1));
  proto::Map log = MapOf();
  log.set_log1p(true);
  ASSERT_TRUE(Apply(log, batch).ok());
  EXPECT_THAT(batch.columns[0].values.floats, ElementsAre(FloatEq(std::log(3.0f)), 0));
}

// The row that an error tells of is found also where records have different numbers of values.
TEST(ColumnFunction, AnErrorTellsTheRow) {
  proto::Map map = MapOf();
  map.mutable_lookup()->add_tokens("1");
  ColumnSpec varies = Ints();
  varies.varies = true;
  int64_t row = 0;
  ColumnBatch batch = BatchOf(varies, {.ints = {1, 1, 1, 2}}, {0, 0, 3, 3, 4});
  EXPECT_THAT(Apply(map, batch, &row).message(), HasSubstr("'2' is not in the vocabulary"));
  EXPECT_EQ(row, 3);
}

TEST(ColumnFunction, MapsThatCannotBeAreRefused) {
  const auto error = [](const proto::Map& map) {
    ColumnBatch batch = BatchOf(Floats(), {.floats = {1}});
    return std::string(Apply(map, batch).message());
  };
  proto::Map map = MapOf();
  EXPECT_THAT(error(map), HasSubstr("a map has no function"));
  map.mutable_hashing()->set_bins(3);
  EXPECT_THAT(error(map),
              HasSubstr("Hashing: column 'x' is float32[]; it takes texts or integers"));
  map.add_inputs("x");
  EXPECT_THAT(error(map), HasSubstr("names the column 'x' twice"));
  map.clear_inputs();
  EXPECT_THAT(error(map), HasSubstr("names no column"));
  map.add_inputs("y");
  EXPECT_THAT(error(map), HasSubstr("there is no column 'y'; there are x"));
  proto::Map cross = MapOf("z");
  cross.mutable_hashed_crossing()->set_bins(2);
  EXPECT_THAT(error(cross), HasSubstr("at least two columns"));
}

}  // namespace
}  // namespace cohort
