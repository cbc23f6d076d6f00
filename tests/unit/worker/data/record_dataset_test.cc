// Data sets of record files: from the bytes of a file to the tensors of a batch.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/records/tfrecord.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/example.pb.h"
#include "tests/support/world/memory_file_system.h"
#include "worker/data/dataset.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kTfRecord = 0;
constexpr uint32_t kText = 1;
constexpr uint32_t kCsv = 2;

class RecordDatasetTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& bytes) {
    auto file = files.Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(bytes).ok() && (*file)->Sync().ok() && (*file)->Close().ok());
  }

  // Makes a spec of CSV files with an integer, a text and a number: "age,job,pay".
  proto::DatasetSpec Adults(std::vector<std::string> paths) {
    proto::DatasetSpec spec;
    proto::RecordFiles& source = *spec.mutable_source()->mutable_record_files();
    for (const std::string& path : paths) source.add_paths(path);
    source.mutable_format()->set_kind(kCsv);
    source.mutable_format()->set_quotes(true);
    source.set_compression("auto");
    for (const auto& [name, type] : {std::pair{"age", proto::COLUMN_INT64},
                                     {"job", proto::COLUMN_STRING},
                                     {"pay", proto::COLUMN_FLOAT32}}) {
      proto::DataField& field = *source.mutable_csv()->add_fields();
      field.set_name(name);
      field.set_type(type);
    }
    return spec;
  }
  static proto::Map& AddMap(proto::DatasetSpec& spec, std::vector<std::string> inputs,
                            const std::string& output) {
    proto::Map& map = *spec.add_transforms()->mutable_map();
    for (const std::string& input : inputs) map.add_inputs(input);
    map.set_output(output);
    return map;
  }
  static void AddBatch(proto::DatasetSpec& spec, int64_t size) {
    spec.add_transforms()->mutable_batch()->set_size(size);
  }

  absl::StatusOr<Element> BatchAt(const proto::DatasetSpec& spec, int64_t element) {
    auto dataset = Dataset::Build(spec, cache);
    if (!dataset.ok()) return dataset.status();
    proto::IteratorPosition position;
    position.set_element(element);
    return (*dataset)->ElementAt(position);
  }
  std::string ErrorOf(const proto::DatasetSpec& spec) {
    return std::string(BatchAt(spec, 0).status().message());
  }

  MemoryFileSystem files;
  SourceCache cache{files, "/"};
};

TEST_F(RecordDatasetTest, CsvRecordsOfSeveralFilesBecomeBatches) {
  Put("/a.csv", "25,clerk,1.5\n31,smith,2\n");
  Put("/b.csv", "47,clerk,3\r\n");
  proto::DatasetSpec spec = Adults({"/a.csv", "/b.csv"});
  AddMap(spec, {"job"}, "job").mutable_lookup()->add_tokens("clerk");
  spec.mutable_transforms(0)->mutable_map()->mutable_lookup()->set_oov_indices(1);
  AddMap(spec, {"age", "job"}, "cross").mutable_hashed_crossing()->set_bins(1000);
  proto::Normalization& norm = *AddMap(spec, {"age"}, "").mutable_normalization();
  norm.add_mean(31);
  norm.add_variance(16);
  AddBatch(spec, 2);
  const auto dataset = Dataset::Build(spec, cache);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<std::string> names;
  for (const auto& component : (*dataset)->element_spec().components())
    names.push_back(component.name());
  EXPECT_THAT(names, ElementsAre("age", "job", "pay", "cross"));
  EXPECT_EQ((*dataset)->cardinality(), 2);
  EXPECT_EQ((*dataset)->files().size(), 2u);
  const auto first = BatchAt(spec, 0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT((*first)[0].span<float>(), ElementsAre(-1.5f, 0.0f));
  EXPECT_THAT((*first)[1].span<int64_t>(), ElementsAre(1, 0));
  EXPECT_THAT((*first)[2].span<float>(), ElementsAre(1.5f, 2.0f));
  const auto last = BatchAt(spec, 1);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ((*last)[0].shape(), Shape({1}));
  EXPECT_THAT((*last)[0].span<float>(), ElementsAre(4.0f));
}

TEST_F(RecordDatasetTest, ColumnsThatAreNoTensorsAreRefusedWithTheWayOut) {
  Put("/a.csv", "25,clerk,1.5\n");
  proto::DatasetSpec spec = Adults({"/a.csv"});
  EXPECT_THAT(ErrorOf(spec), HasSubstr("column 'job' has texts"));
  AddMap(spec, {"job"}, "").set_drop(true);
  const auto element = BatchAt(spec, 0);
  ASSERT_TRUE(element.ok()) << element.status();
  EXPECT_EQ(element->size(), 2u);
  EXPECT_EQ((*element)[0].shape(), Shape()) << "without a batch";
  AddMap(spec, {"job"}, "").set_drop(true);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("Drop: there is no column 'job'; there are age, pay"));
}

TEST_F(RecordDatasetTest, ARecordThatIsWrongIsNamed) {
  Put("/a.csv", "age,job,pay\n25,clerk,1.5\nold,clerk,2\n");
  proto::DatasetSpec spec = Adults({"/a.csv"});
  spec.mutable_source()->mutable_record_files()->set_header_records(1);
  AddMap(spec, {"job"}, "").set_drop(true);
  AddBatch(spec, 2);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("record 2 of /a.csv: field 0 (column 'age'): 'old'"));
  Put("/b.csv", "25,clerk,1.5\n26,smith,1.5\n");
  proto::DatasetSpec closed = Adults({"/b.csv"});
  AddMap(closed, {"job"}, "").mutable_lookup()->add_tokens("clerk");
  AddBatch(closed, 2);
  EXPECT_THAT(ErrorOf(closed),
              HasSubstr("record 1 of /b.csv: column 'job': 'smith' is not in the vocabulary"));
}

// The transform that fit adds for the labels works on columns as on arrays.
TEST_F(RecordDatasetTest, LabelsAreCheckedAndNamed) {
  Put("/a.csv", "0,x,1\n2,y,1\n");
  proto::DatasetSpec spec = Adults({"/a.csv"});
  AddMap(spec, {"job"}, "").set_drop(true);
  spec.add_transforms()->mutable_class_labels()->set_classes(2);
  AddBatch(spec, 1);
  EXPECT_THAT((*BatchAt(spec, 0))[0].span<int64_t>(), ElementsAre(0));
  EXPECT_THAT(BatchAt(spec, 1).status().message(),
              HasSubstr("the label of example 1 of /a.csv is 2"));
}

TEST_F(RecordDatasetTest, ExamplesOfTfRecordFilesAreReadInAnyOrder) {
  std::string bytes;
  for (int64_t i = 0; i < 300; ++i) {
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["id"].mutable_int64_list()->add_value(i);
    for (int64_t tag = 0; tag < i % 3; ++tag) features["tags"].mutable_int64_list()->add_value(tag);
    AppendTfRecord(example.SerializeAsString(), bytes);
  }
  Put("/a.tfrecord", bytes);
  proto::DatasetSpec spec;
  proto::RecordFiles& source = *spec.mutable_source()->mutable_record_files();
  source.add_paths("a.tfrecord");
  source.mutable_format()->set_kind(kTfRecord);
  source.set_compression("auto");
  source.mutable_example()->add_fields()->set_name("id");
  proto::DataField& tags = *source.mutable_example()->add_fields();
  tags.set_name("tags");
  tags.set_varies(true);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("column 'tags' is int64[?], with different numbers"));
  proto::CategoryEncoding& encoding = *AddMap(spec, {"tags"}, "").mutable_category_encoding();
  encoding.set_tokens(2);
  encoding.set_mode("count");
  proto::Shuffle& shuffle = *spec.add_transforms()->mutable_shuffle();
  shuffle.set_buffer_size(300);
  AddBatch(spec, 60);
  std::vector<bool> seen(300);
  for (int64_t element = 0; element < 5; ++element) {
    const auto batch = BatchAt(spec, element);
    ASSERT_TRUE(batch.ok()) << batch.status();
    const auto ids = (*batch)[0].span<int64_t>();
    const auto counts = (*batch)[1].span<float>();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_FALSE(seen[static_cast<size_t>(ids[i])]);
      seen[static_cast<size_t>(ids[i])] = true;
      EXPECT_EQ(counts[2 * i], ids[i] % 3 > 0 ? 1 : 0) << ids[i];
      EXPECT_EQ(counts[2 * i + 1], ids[i] % 3 > 1 ? 1 : 0) << ids[i];
    }
  }
}

// Statistics of parts of the data, after the functions that stand before Adapt.
TEST_F(RecordDatasetTest, StatisticsOfColumnsAreGathered) {
  std::string bytes;
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&bytes, i, ",", i % 7 < 3 ? "a" : "b", ",0.5\n");
  Put("/a.csv", bytes);
  proto::DatasetSpec spec = Adults({"/a.csv"});
  AddMap(spec, {"age"}, "").mutable_rescaling()->set_scale(2);
  proto::Adapt& adapt = *spec.add_transforms()->mutable_adapt();
  const auto add = [&](const std::string& column, proto::Statistic::Kind kind) {
    adapt.add_statistics()->set_column(column);
    adapt.mutable_statistics()->rbegin()->set_kind(kind);
  };
  add("age", proto::Statistic::MOMENTS);
  add("job", proto::Statistic::TOKENS);
  add("age", proto::Statistic::VALUES);
  const auto dataset = Dataset::Build(spec, cache);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->element_spec().components_size(), 0);
  EXPECT_EQ((*dataset)->plan().source_elements(), 3000);
  const auto gathered = (*dataset)->Gather(7, 2807);
  ASSERT_TRUE(gathered.ok()) << gathered.status();
  EXPECT_EQ((*gathered)[0].moments()[0].count, 2800);
  EXPECT_NEAR((*gathered)[0].moments()[0].mean, 2 * (7 + 2799 / 2.0), 1e-9);
  EXPECT_THAT((*gathered)[1].tokens().counts(),
              ElementsAre(testing::Pair("a", 1200), testing::Pair("b", 1600)));
  EXPECT_THAT((*gathered)[2].values().Boundaries(2), ElementsAre(2 * (7 + 1399)));
  EXPECT_THAT((*dataset)->Gather(0, 3001).status().message(),
              HasSubstr("examples 0 to 3001 are not among 3000 of /a.csv"));
  EXPECT_FALSE((*dataset)->Gather(5, 4).ok());
  add("none", proto::Statistic::TOKENS);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("there is no column 'none' to adapt to"));
  adapt.mutable_statistics()->RemoveLast();
  add("job", proto::Statistic::MOMENTS);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("column 'job' is string[]; it takes numbers"));
  adapt.mutable_statistics()->RemoveLast();
  AddMap(spec, {"age"}, "").mutable_rescaling()->set_scale(2);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("Adapt must be the last transform"));
}

TEST_F(RecordDatasetTest, LinesOfTextAreHashed) {
  Put("/a.txt", "a\nb\n");
  proto::DatasetSpec spec;
  proto::RecordFiles& source = *spec.mutable_source()->mutable_record_files();
  source.add_paths("/a.txt");
  source.mutable_format()->set_kind(kText);
  source.mutable_raw()->set_name("line");
  AddMap(spec, {"line"}, "").mutable_hashing()->set_bins(1000);
  AddBatch(spec, 2);
  EXPECT_THAT((*BatchAt(spec, 0))[0].span<int64_t>(), ElementsAre(939, 822));
}

TEST_F(RecordDatasetTest, AHeaderInAnotherOrderIsRefused) {
  proto::DatasetSpec spec = Adults({"/a.csv"});
  AddMap(spec, {"job"}, "").set_drop(true);
  spec.mutable_source()->mutable_record_files()->set_header_records(1);
  Put("/a.csv", "pay,job,age\n1.5,clerk,25\n");
  EXPECT_THAT(ErrorOf(spec),
              HasSubstr("/a.csv: its header has 'age' as field 2, and columns has it "
                        "as field 0; give columns in the file's order"));
  // Other names say nothing of the order.
  ASSERT_TRUE(files.Remove("/a.csv").ok());
  Put("/a.csv", "Age,Job,Pay\n25,clerk,1.5\n");
  EXPECT_EQ(ErrorOf(spec), "");
}

// A column of very many values is refused before memory is taken for it.
TEST_F(RecordDatasetTest, ColumnsThatAreTooLargeAreRefused) {
  Put("/a.csv", "1,x,1\n");
  proto::DatasetSpec spec = Adults({"/a.csv"});
  AddMap(spec, {"job"}, "").set_drop(true);
  proto::CategoryEncoding& encoding = *AddMap(spec, {"age"}, "").mutable_category_encoding();
  encoding.set_tokens(1 << 24);
  encoding.set_mode("multi_hot");
  AddBatch(spec, 1024);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("CategoryEncoding: column 'age' is float32[16777216], of "
                                       "which 1024 examples need more than"));
  spec.mutable_transforms(2)->mutable_batch()->set_size(1);
  EXPECT_TRUE(BatchAt(spec, 0).ok());
}

TEST_F(RecordDatasetTest, WildcardsStandForFilesInTheOrderOfTheirNames) {
  ASSERT_TRUE(files.MakeDirectories("/d").ok());
  Put("/d/b-2.csv", "2,x,1\n");
  Put("/d/b-10.csv", "10,x,1\n");
  Put("/d/.b-3.csv", "3,x,1\n");
  Put("/d/b-1.csv.cohort-index", "no data");
  Put("/d/c.csv", "7,x,1\n");
  proto::DatasetSpec spec = Adults({"d/b-*"});
  AddMap(spec, {"job"}, "").set_drop(true);
  AddBatch(spec, 9);
  const auto batch = BatchAt(spec, 0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT((*batch)[0].span<int64_t>(), ElementsAre(10, 2));
  spec.mutable_source()->mutable_record_files()->set_paths(0, "/d/b-?.csv");
  EXPECT_THAT((*BatchAt(spec, 0))[0].span<int64_t>(), ElementsAre(2));
  spec.mutable_source()->mutable_record_files()->set_paths(0, "/d/z*");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("/d/z*: matches no file"));
  spec.mutable_source()->mutable_record_files()->set_paths(0, "/*/b.csv");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("only the last part may have one"));
}

// Data sets of the same files share them, until a file changes.
TEST_F(RecordDatasetTest, DataSetsOfTheSameFilesShareThem) {
  Put("/a.csv", "1,x,1\n2,x,1\n");
  proto::DatasetSpec spec = Adults({"/a.csv"});
  const auto open = [&] { return cache.Open(spec.source()); };
  const auto first = open();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(open()->examples, first->examples);
  ASSERT_TRUE(files.Remove("/a.csv").ok());
  Put("/a.csv", "1,x,1\n2,x,1\n3,x,1\n");
  const auto changed = open();
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_NE(changed->examples, first->examples);
  EXPECT_EQ(changed->elements, 3);
  EXPECT_EQ(first->examples->size(), 2);
}

TEST_F(RecordDatasetTest, SpecsThatCannotBeAreRefused) {
  Put("/a.csv", "1,x,1\n");
  proto::DatasetSpec spec = Adults({"/a.csv"});
  proto::RecordFiles& source = *spec.mutable_source()->mutable_record_files();
  source.mutable_format()->set_kind(9);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("9 is no format"));
  source.mutable_format()->set_kind(kCsv);
  source.set_compression("zstd");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("'zstd' is not a compression that is read"));
  source.set_compression("auto");
  source.mutable_csv()->set_delimiter("::");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("'::' is no single byte"));
  source.mutable_csv()->clear_delimiter();
  source.set_header_records(2);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("/a.csv: has 1 records, and its header 2"));
  source.clear_header_records();
  source.set_paths(0, "/none.csv");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("/none.csv"));
  proto::DatasetSpec range;
  range.mutable_source()->mutable_range()->set_end(3);
  AddMap(range, {"x"}, "").set_drop(true);
  EXPECT_THAT(ErrorOf(range), HasSubstr("Drop is for named columns, as files of records have"));
}

}  // namespace
}  // namespace cohort
