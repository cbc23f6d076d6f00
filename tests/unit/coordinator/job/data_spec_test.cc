#include "coordinator/job/data_spec.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensor/dtype.h"
#include "coordinator/job/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

proto::ElementSpec Images(DType dtype = DType::kUint8) {
  proto::ElementSpec element;
  proto::ComponentSpec* x = element.add_components();
  x->set_dtype(static_cast<int32_t>(dtype));
  for (const int64_t dim : {-1, 28, 28}) x->add_dims(dim);
  proto::ComponentSpec* y = element.add_components();
  y->set_dtype(static_cast<int32_t>(DType::kUint8));
  y->add_dims(-1);
  return element;
}

TransformSpec Transform(TransformSpec::Kind kind, uint32_t component) {
  TransformSpec transform;
  transform.kind = kind;
  transform.component = component;
  transform.scale = 0.5;
  transform.offset = -1;
  transform.num_tokens = 10;
  return transform;
}

constexpr auto kFlatten = TransformSpec::Kind::kFlatten;
constexpr auto kRescaling = TransformSpec::Kind::kRescaling;
constexpr auto kEncoding = TransformSpec::Kind::kCategoryEncoding;

absl::StatusOr<proto::ElementSpec> Transformed(const std::vector<TransformSpec>& pipeline,
                                               const proto::ElementSpec& batch) {
  DataSpec data;
  data.pipeline = pipeline;
  return TransformElement(batch, PipelineTransforms(data));
}

TEST(DataSpec, PipelineBecomesDatasetTransformsInOrder) {
  DataSpec data;
  data.pipeline = {Transform(kFlatten, 0), Transform(kRescaling, 0), Transform(kEncoding, 1)};
  const std::vector<proto::DatasetTransform> transforms = PipelineTransforms(data);
  ASSERT_EQ(transforms.size(), 3u);
  ASSERT_TRUE(transforms[0].has_flatten());
  EXPECT_EQ(transforms[0].flatten(), 0u);
  EXPECT_EQ(transforms[1].rescale().scale(), 0.5);
  EXPECT_EQ(transforms[1].rescale().offset(), -1);
  EXPECT_EQ(transforms[2].one_hot().component(), 1u);
  EXPECT_EQ(transforms[2].one_hot().depth(), 10);
}

TEST(DataSpec, ElementTypesFollowThePipeline) {
  const auto element = Transformed(
      {Transform(kFlatten, 0), Transform(kRescaling, 0), Transform(kEncoding, 1)}, Images());
  ASSERT_TRUE(element.ok()) << element.status();
  EXPECT_EQ(element->components(0).dtype(), static_cast<int32_t>(DType::kFloat32));
  EXPECT_THAT(element->components(0).dims(), ElementsAre(-1, 784));
  EXPECT_EQ(element->components(1).dtype(), static_cast<int32_t>(DType::kFloat32));
  EXPECT_THAT(element->components(1).dims(), ElementsAre(-1, 10));
}

TEST(DataSpec, WithoutAPipelineTheTypeStays) {
  EXPECT_EQ(Transformed({}, Images())->SerializeAsString(), Images().SerializeAsString());
}

TEST(DataSpec, TransformsThatDoNotFitAreErrorsThatNameThem) {
  const auto message = [](const std::vector<TransformSpec>& pipeline) {
    return std::string(Transformed(pipeline, Images()).status().message());
  };
  EXPECT_THAT(message({Transform(kEncoding, 0)}),
              HasSubstr("data.pipeline.0 (CategoryEncoding) of x uint8[-1,28,28]"));
  EXPECT_THAT(message({Transform(kEncoding, 1), Transform(kEncoding, 1)}),
              HasSubstr("data.pipeline.1 (CategoryEncoding) of y float32[-1,10]"));
  proto::ElementSpec only_x = Images();
  only_x.mutable_components()->RemoveLast();
  EXPECT_THAT(std::string(Transformed({Transform(kEncoding, 1)}, only_x).status().message()),
              HasSubstr("1 components, none for 'y'"));
}

// A job over CSV files; `pipeline` is the text of its list.
absl::StatusOr<JobSpec> JobOverCsv(const std::string& pipeline, const std::string& more = "") {
  return ParseJob(absl::StrCat(R"({"name": "adult", "model": {"class_name": "Sequential", "config":
      {"layers": [{"class_name": "Dense", "config": {"units": 1, "input_shape": [1]}}]}},
      "compile": {"optimizer": "sgd", "loss": "mse"},
      "data": {"train": {"class_name": "CSV", "config": {"paths": ["a.csv"], "columns": [
        {"name": "age", "dtype": "int64", "default": 3},
        {"name": "fnlwgt", "read": false},
        {"name": "job", "dtype": "string", "default": "none"},
        {"name": "pay"}], "comment": "|", "trim": true}},
      "pipeline": )",
                               pipeline, more, "}, \"fit\": {}}"),
                  "job.json", {});
}

TEST(RecordSpec, BecomesFilesOfRecords) {
  const auto job = JobOverCsv("[]");
  ASSERT_TRUE(job.ok()) << job.status();
  const proto::RecordFiles files = ToProto(std::get<RecordSpec>(job->data.train));
  EXPECT_THAT(files.paths(), ElementsAre("a.csv"));
  EXPECT_EQ(files.format().comment(), "|");
  EXPECT_TRUE(files.csv().trim());
  ASSERT_EQ(files.csv().fields_size(), 4);
  EXPECT_EQ(files.csv().fields(0).type(), proto::COLUMN_INT64);
  EXPECT_THAT(files.csv().fields(0).default_values().ints(), ElementsAre(3));
  EXPECT_TRUE(files.csv().fields(1).passed_over());
  EXPECT_THAT(files.csv().fields(2).default_values().strings(), ElementsAre("none"));
  EXPECT_FALSE(files.csv().fields(3).has_default_values());
  EXPECT_THAT(FinalColumns(job->data), ElementsAre("age", "job", "pay"));
}

TEST(RecordSpec, FunctionsChangeTheColumnsThatLaterOnesAndLabelsName) {
  const auto job = JobOverCsv(R"([
      {"class_name": "Hashing", "config": {"column": "job", "output": "job_bin", "num_bins": 9,
                                           "salt": 5}},
      {"class_name": "HashedCrossing", "config": {"columns": ["age", "job"], "num_bins": 7,
                                                  "output": "cross"}},
      {"class_name": "Drop", "config": {"columns": ["job"]}},
      {"class_name": "Normalization", "config": {"column": "age", "mean": -2, "variance": [4]}}])",
                              R"(, "labels": "pay")");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(FinalColumns(job->data), ElementsAre("age", "pay", "job_bin", "cross"));
  EXPECT_EQ(job->data.labels.all, 1u);
  const std::vector<proto::DatasetTransform> transforms = PipelineTransforms(job->data);
  ASSERT_EQ(transforms.size(), 4u);
  EXPECT_THAT(transforms[0].map().hashing().key(), ElementsAre(5, 5));
  EXPECT_THAT(transforms[1].map().inputs(), ElementsAre("age", "job"));
  EXPECT_TRUE(transforms[2].map().drop());
  EXPECT_THAT(transforms[3].map().normalization().mean(), ElementsAre(-2));
  // The written job can be read, and means the same.
  const auto again = ParseJob(JobToJson(*job), "again.json", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data, job->data);
}

TEST(RecordSpec, MistakesNameTheKeyAndTheNearestColumn) {
  const auto error = [](const std::string& pipeline) {
    return std::string(JobOverCsv(pipeline).status().message());
  };
  EXPECT_THAT(error(R"([{"class_name": "Log1p", "config": {"column": "pya"}}])"),
              HasSubstr("data.pipeline.0.config.column: 'pya' is not a known column of data.train; "
                        "the nearest is 'pay'"));
  EXPECT_THAT(error(R"([{"class_name": "Hashng", "config": {"column": "job"}}])"),
              HasSubstr("the nearest is 'Hashing'"));
  EXPECT_THAT(error(R"([{"class_name": "Discretization",
                         "config": {"column": "pay", "bin_boundaries": [2, 1]}}])"),
              HasSubstr("do not ascend"));
  EXPECT_THAT(error(R"([{"class_name": "IntegerLookup",
                         "config": {"column": "age", "vocabulary": ["a"]}}])"),
              HasSubstr("its tokens must be integers"));
  EXPECT_THAT(error(R"([{"class_name": "Drop", "config": {"columns": ["pay"]}},
                        {"class_name": "Log1p", "config": {"column": "pay"}}])"),
              HasSubstr("data.pipeline.1.config.column: 'pay' is not a known column"));
}

}  // namespace
}  // namespace cohort
