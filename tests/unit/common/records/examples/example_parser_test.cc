// Records as TensorFlow 2.21 serialized and parsed them (the rows example/* of its golden values),
// and random records, which libprotobuf parses as well.

#include "common/records/examples/example_parser.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/example.pb.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// a=int[1,-1,300] b=float[1.5,2] c=bytes[xy,""], as TensorFlow wrote them.
constexpr char kAbc[] =
    "0a3a0a160a016112111a0f0a0d01ffffffffffffffffff01ac020a110a0162120c120a0a080000c03f000000400a0d"
    "0a016312080a060a0278790a00";

FeatureSpec Fixed(std::string key, FeatureType type, Shape shape,
                  std::optional<ColumnValues> values = {}) {
  return {std::move(key), type, FeatureSpec::Length::kFixed, std::move(shape), std::move(values)};
}
FeatureSpec Varies(std::string key, FeatureType type, Shape shape = {}) {
  return {std::move(key), type, FeatureSpec::Length::kVaries, std::move(shape), {}};
}
ColumnValues Ints(std::vector<int64_t> ints) { return {.ints = std::move(ints)}; }

// The result of a parser of one feature for records, given as hexadecimal digits.
struct Parsed {
  absl::Status status;
  FeatureColumn column;
};
Parsed ParseHex(const FeatureSpec& feature, const std::vector<std::string>& records) {
  Parsed parsed;
  auto parser = ExampleParser::Make({feature});
  EXPECT_TRUE(parser.ok()) << parser.status();
  std::vector<FeatureColumn> columns = parser->NewColumns();
  static auto* const bytes = new std::vector<std::unique_ptr<std::string>>;  // outlive the views
  for (const std::string& record : records) {
    bytes->push_back(std::make_unique<std::string>(absl::HexStringToBytes(record)));
    parsed.status.Update(parser->Append(*bytes->back(), absl::MakeSpan(columns)));
  }
  parsed.column = std::move(columns[0]);
  return parsed;
}

// A serialized Example with one feature "a", whose Feature has these bytes, in hexadecimal digits.
std::string RecordOf(const std::string& feature) {
  const auto sized = [](const std::string& tag, const std::string& hex) {
    return absl::StrCat(tag, absl::Hex(hex.size() / 2, absl::kZeroPad2), hex);
  };
  return sized("0a", sized("0a", absl::StrCat("0a0161", sized("12", feature))));
}

constexpr char kInts5[] = "1a030a0105";  // int64_list [5]
constexpr char kNoInts[] = "1a00";       // an int64_list without values

TEST(ExampleParser, ReadsWhatTensorFlowWrote) {
  EXPECT_THAT(ParseHex(Fixed("a", FeatureType::kInt64, {3}), {kAbc}).column.values.ints,
              ElementsAre(1, -1, 300));
  EXPECT_THAT(ParseHex(Fixed("a", FeatureType::kInt64, {3, 1}), {kAbc}).column.values.ints,
              ElementsAre(1, -1, 300));
  EXPECT_THAT(ParseHex(Fixed("b", FeatureType::kFloat, {2}), {kAbc}).column.values.floats,
              ElementsAre(1.5f, 2.0f));
  EXPECT_THAT(ParseHex(Fixed("c", FeatureType::kBytes, {2}), {kAbc}).column.values.strings,
              ElementsAre("xy", ""));
}

TEST(ExampleParser, AFixedFeatureHasJustItsValues) {
  EXPECT_THAT(ParseHex(Fixed("a", FeatureType::kInt64, {2}), {kAbc}).status.message(),
              HasSubstr("feature 'a': the record has 3 values, its shape [2] has 2"));
  EXPECT_THAT(ParseHex(Fixed("q", FeatureType::kInt64, {}), {kAbc}).status.message(),
              HasSubstr("feature 'q': the record has no int64 values for it"));
  EXPECT_THAT(
      ParseHex(Fixed("q", FeatureType::kInt64, {2}, Ints({5, 6})), {kAbc}).column.values.ints,
      ElementsAre(5, 6));
  EXPECT_THAT(ParseHex(Fixed("q", FeatureType::kInt64, {2}, Ints({-1})), {kAbc}).column.values.ints,
              ElementsAre(-1, -1));
}

TEST(ExampleParser, AFeatureWithoutAListIsAbsentAndAnEmptyListIsNot) {
  const FeatureSpec with_default = Fixed("a", FeatureType::kInt64, {}, Ints({9}));
  EXPECT_THAT(ParseHex(with_default, {RecordOf("")}).column.values.ints, ElementsAre(9));
  EXPECT_THAT(ParseHex(with_default, {RecordOf(kNoInts)}).status.message(),
              HasSubstr("the record has 0 values"));
  EXPECT_TRUE(ParseHex(Fixed("a", FeatureType::kInt64, {0}), {RecordOf(kNoInts)}).status.ok());
  EXPECT_THAT(ParseHex(with_default, {""}).column.values.ints, ElementsAre(9));
}

TEST(ExampleParser, AnotherTypeIsAnErrorWithADefaultToo) {
  for (const auto& values : {std::optional<ColumnValues>(), {ColumnValues{.floats = {1}}}}) {
    EXPECT_THAT(
        ParseHex(Fixed("a", FeatureType::kFloat, {}, values), {RecordOf(kInts5)}).status.message(),
        HasSubstr("feature 'a': the record has values of type int64, not float32"));
  }
  EXPECT_FALSE(ParseHex(Varies("a", FeatureType::kFloat), {RecordOf(kInts5)}).status.ok());
}

TEST(ExampleParser, FeaturesThatVaryHaveSplits) {
  const Parsed parsed =
      ParseHex(Varies("a", FeatureType::kInt64), {RecordOf("1a040a020102"), "", RecordOf(kInts5)});
  EXPECT_THAT(parsed.column.values.ints, ElementsAre(1, 2, 5));
  EXPECT_THAT(parsed.column.row_splits, ElementsAre(0, 2, 2, 3));
  const Parsed pairs = ParseHex(Varies("a", FeatureType::kInt64, {2}), {RecordOf("1a040a020102")});
  EXPECT_THAT(pairs.column.row_splits, ElementsAre(0, 1));
  EXPECT_THAT(ParseHex(Varies("a", FeatureType::kInt64, {2}), {RecordOf(kInts5)}).status.message(),
              HasSubstr("1 values, not a multiple of the 2 of a step"));
}

TEST(ExampleParser, FormsThatWritersMayChoose) {
  const FeatureSpec ints = Varies("a", FeatureType::kInt64);
  const auto read = [&](const std::string& feature) {
    return ParseHex(ints, {RecordOf(feature)}).column.values.ints;
  };
  EXPECT_THAT(read("1a0408050806"), ElementsAre(5, 6)) << "a tag for each value";
  EXPECT_THAT(read("1a050a01050806"), ElementsAre(5, 6)) << "both forms in one list";
  EXPECT_THAT(read("28071a030a0105"), ElementsAre(5)) << "a field that is not known";
  EXPECT_THAT(
      ParseHex(Varies("a", FeatureType::kFloat), {RecordOf("12050d0000c03f")}).column.values.floats,
      ElementsAre(1.5f));
  // The key twice: the last one counts.
  EXPECT_THAT(
      ParseHex(ints, {"0a180a0a0a016112051a030a01050a0a0a016112051a030a0106"}).column.values.ints,
      ElementsAre(6));
  // Two Examples one after the other are one.
  const std::string b = "0a0c0a0a0a016212051a030a0102";
  EXPECT_THAT(ParseHex(ints, {absl::StrCat(RecordOf(kInts5), b)}).column.values.ints,
              ElementsAre(5));
  EXPECT_THAT(ParseHex(Varies("b", FeatureType::kInt64), {absl::StrCat(RecordOf(kInts5), b)})
                  .column.values.ints,
              ElementsAre(2));
}

TEST(ExampleParser, BytesThatLoseValuesAreRefused) {
  const auto error = [](FeatureType type, const std::string& record) {
    return std::string(ParseHex(Varies("a", type), {record}).status.message());
  };
  EXPECT_THAT(error(FeatureType::kInt64, RecordOf("1a030a010512060a0400000000")),
              HasSubstr("given twice"));
  EXPECT_THAT(error(FeatureType::kInt64, RecordOf("1a030a01051a030a0106")), HasSubstr("twice"));
  EXPECT_THAT(error(FeatureType::kFloat, RecordOf("12070a050000000001")), HasSubstr("malformed"));
  EXPECT_THAT(error(FeatureType::kInt64, RecordOf("1a030a0185")), HasSubstr("malformed"));
  EXPECT_THAT(error(FeatureType::kInt64, "0a090a0712051a030a0105"), HasSubstr("has no key"));
  EXPECT_THAT(error(FeatureType::kInt64, "ffffff"), HasSubstr("is no tf.train.Example"));
}

TEST(ExampleParser, ARecordWithAnErrorLeavesTheColumnsAsTheyWere) {
  auto parser =
      ExampleParser::Make({Fixed("a", FeatureType::kInt64, {3}), Varies("c", FeatureType::kBytes),
                           Fixed("z", FeatureType::kInt64, {})});
  ASSERT_TRUE(parser.ok()) << parser.status();
  std::vector<FeatureColumn> columns = parser->NewColumns();
  EXPECT_FALSE(parser->Append(absl::HexStringToBytes(kAbc), absl::MakeSpan(columns)).ok());
  EXPECT_THAT(columns[0].values.ints, IsEmpty());
  EXPECT_THAT(columns[1].values.strings, IsEmpty());
  EXPECT_THAT(columns[1].row_splits, ElementsAre(0));
}

TEST(ExampleParser, FeaturesThatCannotBeReadAreRefused) {
  const auto error = [](std::vector<FeatureSpec> features) {
    return ExampleParser::Make(std::move(features)).status();
  };
  const FeatureSpec a = Fixed("a", FeatureType::kInt64, {});
  EXPECT_THAT(error({a, a}).message(), HasSubstr("twice"));
  EXPECT_THAT(error({Fixed("a", FeatureType::kInt64, {3}, Ints({1, 2}))}).message(),
              HasSubstr("feature 'a': its default is 2 values"));
  EXPECT_FALSE(error({Fixed("a", FeatureType::kFloat, {}, Ints({1}))}).ok());
  EXPECT_THAT(error({Varies("a", FeatureType::kInt64, {0})}).message(), HasSubstr("no values"));
}

// Random examples, some with values that libprotobuf drops or moves, against libprotobuf.
proto::Example RandomExample(SequenceRng& rng) {
  proto::Example example;
  for (uint64_t i = rng.Below(6); i > 0; --i) {
    proto::Feature& feature =
        (*example.mutable_features()->mutable_feature())[absl::StrCat("k", rng.Below(6))];
    const uint64_t kind = rng.Below(4);
    for (uint64_t n = rng.Below(5); n > 0; --n) {
      if (kind == 0)
        feature.mutable_int64_list()->add_value(static_cast<int64_t>(rng.Next()) >> rng.Below(64));
      if (kind == 1) feature.mutable_float_list()->add_value(static_cast<float>(rng.Uniform()));
      if (kind == 2) feature.mutable_bytes_list()->add_value(std::string(rng.Below(200), 'x'));
    }
  }
  return example;
}

TEST(ExampleParser, AgreesWithProtobufOnRandomExamples) {
  const uint64_t seed = TestSeed(38);
  SequenceRng rng(seed);
  std::vector<FeatureSpec> features;
  for (int i = 0; i < 6; ++i) features.push_back(Varies(absl::StrCat("k", i), FeatureType::kInt64));
  auto parser = ExampleParser::Make(features);
  ASSERT_TRUE(parser.ok()) << parser.status();
  int parsed = 0;
  for (int round = 0; round < 3000; ++round) {
    const proto::Example example = RandomExample(rng);
    std::vector<FeatureColumn> columns = parser->NewColumns();
    const std::string bytes = example.SerializeAsString();
    const absl::Status status = parser->Append(bytes, absl::MakeSpan(columns));
    bool all_ints = true;
    for (size_t i = 0; i < features.size(); ++i) {
      const auto& map = example.features().feature();
      const auto found = map.find(features[i].key);
      if (found == map.end() || found->second.kind_case() == proto::Feature::KIND_NOT_SET) continue;
      all_ints &= found->second.has_int64_list();
      if (!status.ok()) continue;
      const auto& list = found->second.int64_list().value();
      EXPECT_EQ(columns[i].values.ints, std::vector<int64_t>(list.begin(), list.end()))
          << "seed " << seed;
    }
    EXPECT_EQ(status.ok(), all_ints) << status << " seed " << seed;
    parsed += status.ok() ? 1 : 0;
  }
  EXPECT_GT(parsed, 300);
}

}  // namespace
}  // namespace cohort
