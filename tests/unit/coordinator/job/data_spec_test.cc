#include "coordinator/job/data_spec.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensor/dtype.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/job/pipeline_file.h"
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

TEST(RecordSpec, FunctionsWithoutWhatTheDataSayAreIncomplete) {
  const auto job = JobOverCsv(R"([
      {"class_name": "StringLookup", "config": {"column": "job", "max_tokens": 9}},
      {"class_name": "Normalization", "config": {"column": "age", "axis": null}},
      {"class_name": "Discretization", "config": {"column": "pay", "output": "bin", "num_bins": 3}},
      {"class_name": "TextVectorization", "config": {"column": "job", "output": "words",
          "standardize": null, "split": "character", "ngrams": 2, "output_mode": "int",
          "output_sequence_length": 4, "vocabulary": ["a", {"base64": "/w=="}]}},
      {"class_name": "StringLookup", "config": {"column": "job", "output": "own",
                                                "vocabulary": "/tokens.txt"}}])");
  ASSERT_TRUE(job.ok()) << job.status();
  const std::vector<TransformSpec>& pipeline = job->data.pipeline;
  ASSERT_EQ(pipeline.size(), 5u);
  EXPECT_TRUE(NeedsAdapting(pipeline[0].map));
  EXPECT_EQ(StatisticFor(pipeline[0].map).kind(), proto::Statistic::TOKENS);
  EXPECT_TRUE(NeedsAdapting(pipeline[1].map));
  EXPECT_EQ(StatisticFor(pipeline[1].map).groups(), 1);
  EXPECT_EQ(StatisticFor(pipeline[2].map).kind(), proto::Statistic::VALUES);
  EXPECT_FALSE(NeedsAdapting(pipeline[3].map));
  EXPECT_THAT(*pipeline[3].map.vocabulary, ElementsAre("a", "\xff"));
  EXPECT_EQ(ToProto(pipeline[3].map).text_vectorization().standardize(), "none");
  EXPECT_FALSE(NeedsAdapting(pipeline[4].map)) << "the file has the vocabulary";
  const auto again = ParseJob(JobToJson(*job), "again.json", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data, job->data);
  // A complete pipeline is written and read alone.
  DataSpec complete = job->data;
  ColumnStatistics statistics(1);
  statistics.AddToMoments(0, 1.0 / 3);
  for (const double value : {0.1, 0.2, 0.7}) statistics.AddValue(value);
  for (const char* token : {"x", "\xc3\xa9", "\xe9"}) statistics.AddToken(token);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(Adapt(complete.pipeline[i].map, statistics).ok());
  const auto read = ParsePipeline(PipelineToJson(complete), "state.json", job->data);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, complete.pipeline);
  EXPECT_THAT(ParsePipeline(R"({"pipeline": [{"class_name": "Log1p", "config": {"column": "x"}}]})",
                            "state.json", job->data)
                  .status()
                  .message(),
              HasSubstr("state.json: pipeline.0.config.column: 'x' is not a known column"));
}

// Reads a job whose training data are `train`; the pipeline and more follow.
absl::StatusOr<JobSpec> JobOver(const std::string& train, const std::string& more = "") {
  return ParseJob(absl::StrCat(R"({"model": {"class_name": "Sequential", "config":
      {"layers": [{"class_name": "Dense", "config": {"units": 1, "input_shape": [1]}}]}},
      "compile": {"optimizer": "sgd", "loss": "mse"}, "data": {"train": )",
                               train, more, "}, \"fit\": {}}"),
                  "job.json", {});
}

TEST(NumpySpec, ArraysAreComponentsByNumber) {
  const auto job =
      JobOver(R"({"class_name": "NumPy", "config": {"paths": ["a.npz"], "keys": ["u", "v", "w"]}})",
              R"(, "labels": 2, "pipeline": [{"class_name": "Rescaling", "config": {"scale": 2,
           "component": "y"}}])");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(FinalColumns(job->data), ElementsAre("x", "y", "2"));
  EXPECT_EQ(job->data.labels.all, 2u);
  const auto again = ParseJob(JobToJson(*job), "again.json", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data, job->data);
  EXPECT_THAT(
      JobOver(R"({"class_name": "NumPy", "config": {"paths": ["a.npz"]}})").status().message(),
      HasSubstr("data.train.config.keys: is missing; name the arrays of a.npz"));
  EXPECT_THAT(
      JobOver(R"({"class_name": "NumPy", "config": {"paths": ["a.npz", "b"], "keys": ["u"]}})")
          .status()
          .message(),
      HasSubstr("keys: name the arrays of one .npz file"));
}

TEST(ImageDirectorySpec, ImagesAreDecodedBeforeThePipeline) {
  const auto job = JobOver(
      R"({"class_name": "ImageDirectory", "config": {"directory": "/i", "image_size": [8, 9],
          "color_mode": "grayscale", "class_names": ["b", "a"]}})",
      R"(, "pipeline": [{"class_name": "Rescaling",
                        "config": {"column": "image", "scale": 0.5}}])");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(FinalColumns(job->data), ElementsAre("image", "label"));
  const std::vector<proto::DatasetTransform> transforms = PipelineTransforms(job->data);
  ASSERT_EQ(transforms.size(), 2u);
  EXPECT_EQ(transforms[0].map().decode_image().width(), 9);
  EXPECT_EQ(transforms[0].map().decode_image().channels(), 1);
  const auto again = ParseJob(JobToJson(*job), "again.json", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data, job->data);
  EXPECT_THAT(JobOver(R"({"class_name": "ImageDirectory",
                          "config": {"directory": "/i", "image_size": [8, 9, 3]}})")
                  .status()
                  .message(),
              HasSubstr("image_size: must be two numbers"));
}

TEST(OrderSpec, IsGlobalOrOfBlocks) {
  const auto shuffle = [](const std::string& order, const std::string& file = "a.csv") {
    auto job = JobOverCsv("[]", order);
    EXPECT_TRUE(job.ok()) << job.status();
    const auto again = ParseJob(JobToJson(*job), "again.json", {});
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->data, job->data);
    std::get<RecordSpec>(job->data.train).paths = {"b.csv", file};
    return ShuffleOf(job->data, 5);
  };
  EXPECT_EQ(shuffle("").order(), proto::Shuffle::BUFFER);
  EXPECT_EQ(shuffle("", "a.csv.gz").order(), proto::Shuffle::BLOCKS);
  EXPECT_EQ(shuffle("", "a.csv.gz").mixed_blocks(), 64);
  EXPECT_EQ(shuffle(R"(, "order": "global")", "a.csv.gz").order(), proto::Shuffle::BUFFER);
  const proto::Shuffle blocks = shuffle(
      R"(, "order": {"class_name": "blocks", "config": {"block_size": 9, "mixed_blocks": 3}})");
  EXPECT_EQ(blocks.order(), proto::Shuffle::BLOCKS);
  EXPECT_EQ(blocks.block_size(), 9);
  EXPECT_EQ(blocks.mixed_blocks(), 3);
  EXPECT_EQ(blocks.seed(), 5u);
  EXPECT_THAT(JobOverCsv("[]", R"(, "order": "block")").status().message(),
              HasSubstr("the nearest is 'blocks'"));
}

// Keras's get_vocabulary() returns the tokens with indices of their own first.
TEST(RecordSpec, VocabulariesOfKerasLoseTheirSpecialTokens) {
  const auto job = JobOverCsv(R"([
      {"class_name": "StringLookup", "config": {"column": "job", "output": "a", "mask_token": "",
          "num_oov_indices": 2, "vocabulary": ["", "[UNK]", "[UNK]", "x"]}},
      {"class_name": "IntegerLookup", "config": {"column": "age", "output": "b",
                                                 "vocabulary": [-1, 5, 7]}},
      {"class_name": "TextVectorization", "config": {"column": "job", "output": "c",
                                                     "vocabulary": ["", "[UNK]", "y"]}}])");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(*job->data.pipeline[0].map.vocabulary, ElementsAre("x"));
  EXPECT_THAT(*job->data.pipeline[1].map.vocabulary, ElementsAre("5", "7"));
  EXPECT_THAT(*job->data.pipeline[2].map.vocabulary, ElementsAre("y"));
  EXPECT_THAT(JobOverCsv(R"([{"class_name": "StringLookup", "config":
                              {"column": "job", "vocabulary": ["x", "[UNK]"]}}])")
                  .status()
                  .message(),
              HasSubstr("vocabulary: has '[UNK]', which is the mask or stands for unknown tokens"));
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
  EXPECT_THAT(error(R"([{"class_name": "Discretization", "config": {"column": "pay"}}])"),
              HasSubstr("bin_boundaries: is missing; give the boundaries, or num_bins"));
  EXPECT_THAT(error(R"([{"class_name": "Discretization", "config":
                         {"column": "pay", "bin_boundaries": [1, 2], "num_bins": 4}}])"),
              HasSubstr("num_bins: is 4, and bin_boundaries make 3 bins"));
  EXPECT_THAT(error(R"([{"class_name": "Normalization", "config": {"column": "pay", "mean": 1}}])"),
              HasSubstr("variance: is missing; give both mean and variance, or neither"));
  EXPECT_THAT(error(R"([{"class_name": "Normalization", "config": {"column": "pay", "axis": 0}}])"),
              HasSubstr("axis: is 0; mean and variance adapt to the last axis"));
  EXPECT_THAT(error(R"([{"class_name": "StringLookup", "config":
                         {"column": "job", "vocabulary": 3}}])"),
              HasSubstr("vocabulary: is 3; it must be a list of tokens, the path"));
  EXPECT_THAT(error(R"([{"class_name": "Pad", "config": {"column": "job", "length": 0}}])"),
              HasSubstr("length"));
  EXPECT_THAT(error(R"([{"class_name": "DecodeImage", "config":
                         {"column": "job", "height": 2, "width": 2, "channels": 2}}])"),
              HasSubstr("channels: is 2; it must be 1, 3 or 4"));
  EXPECT_THAT(error(R"([{"class_name": "Drop", "config": {"columns": ["pay"]}},
                        {"class_name": "Log1p", "config": {"column": "pay"}}])"),
              HasSubstr("data.pipeline.1.config.column: 'pay' is not a known column"));
}

}  // namespace
}  // namespace cohort
