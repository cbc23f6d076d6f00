// Records as TensorFlow 2.21 reads them (the rows csv/* of its golden values).

#include "common/records/csv/csv_parser.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ColumnValues Int(int64_t value) { return {.ints = {value}}; }
ColumnValues String(absl::string_view value) { return {.strings = {value}}; }

// The values and the error that a parser of these columns gives for one record.
struct Parsed {
  std::string error;
  std::vector<ColumnValues> values;
  StringArena arena;
};
Parsed Parse(absl::string_view record, std::vector<CsvColumn> columns, CsvOptions options = {}) {
  Parsed parsed;
  parsed.values.resize(columns.size());
  const auto parser = CsvParser::Make(std::move(columns), std::move(options));
  EXPECT_TRUE(parser.ok()) << parser.status();
  parsed.error =
      std::string(parser->Append(record, absl::MakeSpan(parsed.values), parsed.arena).message());
  return parsed;
}

std::vector<CsvColumn> Strings(size_t count) {
  return std::vector<CsvColumn>(count, {.name = "s"});
}
std::vector<std::string> ParseStrings(absl::string_view record, size_t count,
                                      CsvOptions options = {}) {
  const Parsed parsed = Parse(record, Strings(count), std::move(options));
  EXPECT_EQ(parsed.error, "");
  std::vector<std::string> texts;
  for (const ColumnValues& one : parsed.values) texts.emplace_back(one.strings.at(0));
  return texts;
}
std::string ErrorOf(absl::string_view record, std::vector<CsvColumn> columns) {
  return Parse(record, std::move(columns)).error;
}

const CsvColumn kInt{.name = "n", .type = CsvType::kInt32};
const CsvColumn kFloat{.name = "x", .type = CsvType::kFloat32};

TEST(CsvParser, FieldsHaveTheirTypes) {
  const Parsed parsed = Parse("1,2.5,x", {kInt, kFloat, {.name = "s"}});
  EXPECT_EQ(parsed.error, "");
  EXPECT_THAT(parsed.values[0].ints, ElementsAre(1));
  EXPECT_THAT(parsed.values[1].floats, ElementsAre(2.5f));
  EXPECT_THAT(parsed.values[2].strings, ElementsAre("x"));
}

TEST(CsvParser, QuotedFieldsMayHoldAnything) {
  EXPECT_THAT(ParseStrings("\"a,b\",\"c\"\"d\",e", 3), ElementsAre("a,b", "c\"d", "e"));
  EXPECT_THAT(ParseStrings("\"a\nb\",1", 2), ElementsAre("a\nb", "1"));
  EXPECT_THAT(ParseStrings("\"\"\"\"", 1), ElementsAre("\""));
  EXPECT_THAT(Parse("\"5\"", {kInt}).values[0].ints, ElementsAre(5));
  EXPECT_THAT(ErrorOf("a\"b,c", Strings(2)), HasSubstr("has a quote inside"));
  EXPECT_THAT(ErrorOf("\"a\"b,c", Strings(2)), HasSubstr("text follows the closing quote"));
  EXPECT_THAT(ErrorOf("\"a,b", Strings(2)), HasSubstr("not closed"));
  EXPECT_THAT(ErrorOf(" \"a\",b", Strings(2)), HasSubstr("has a quote inside"));
  CsvOptions plain;
  plain.quotes = false;
  EXPECT_THAT(ParseStrings("\"a,b\"", 2, plain), ElementsAre("\"a", "b\""));
}

TEST(CsvParser, MissingFieldsTakeTheDefault) {
  CsvColumn number = kInt;
  number.default_value = Int(7);
  const CsvColumn text{.name = "s", .default_value = String("d")};
  const Parsed parsed = Parse(",\"\"", {number, text});
  EXPECT_THAT(parsed.values[0].ints, ElementsAre(7));
  EXPECT_THAT(parsed.values[1].strings, ElementsAre("d")) << "a quoted empty field is missing too";
  EXPECT_THAT(ErrorOf("1,", {kInt, kInt}),
              HasSubstr("field 1 (column 'n'): the field is missing, and no default is given"));
  EXPECT_THAT(ErrorOf("", {kInt}), HasSubstr("missing"));
  CsvOptions na;
  na.na_value = "?";
  EXPECT_THAT(Parse("?", {number}, na).values[0].ints, ElementsAre(7));
  // The form of the UCI Adult data: a blank before each field.
  EXPECT_THAT(ParseStrings("39, ?", 2, na), ElementsAre("39", " ?"));
  na.trim = true;
  EXPECT_THAT(Parse("39, ?", {kInt, text}, na).values[1].strings, ElementsAre("d"));
}

TEST(CsvParser, BlanksAroundNumbersDoNotCountAndThoseAroundStringsDo) {
  EXPECT_THAT(Parse(" 5 ", {kInt}).values[0].ints, ElementsAre(5));
  EXPECT_THAT(Parse("\t6.0 ", {kFloat}).values[0].floats, ElementsAre(6.0f));
  EXPECT_THAT(ParseStrings(" a ,b", 2), ElementsAre(" a ", "b"));
}

TEST(CsvParser, IntegersAreDecimalAndInRange) {
  for (const char* bad : {"2147483648", "1.0", "1e3", "0x10", "+-5", "1 2", "-"}) {
    EXPECT_THAT(ErrorOf(bad, {kInt}), HasSubstr("is not a valid int32")) << bad;
  }
  EXPECT_THAT(Parse("+5", {kInt}).values[0].ints, ElementsAre(5));
  const CsvColumn wide{.name = "n", .type = CsvType::kInt64};
  EXPECT_THAT(Parse("9223372036854775807", {wide}).values[0].ints,
              ElementsAre(std::numeric_limits<int64_t>::max()));
  EXPECT_FALSE(ErrorOf("9223372036854775808", {wide}).empty());
}

TEST(CsvParser, FloatsHaveTheFormsOfStrtod) {
  const auto read = [](const char* text) { return Parse(text, {kFloat}).values[0].floats.at(0); };
  EXPECT_EQ(read("1e-3"), 0.001f);
  EXPECT_EQ(read(".5"), 0.5f);
  EXPECT_EQ(read("+5."), 5.0f);
  EXPECT_EQ(read("inf"), INFINITY);
  EXPECT_TRUE(std::isnan(read("NaN")));
  EXPECT_EQ(read("-Infinity"), -INFINITY);
  EXPECT_EQ(read("0x1p3"), 8.0f);
  EXPECT_EQ(read("1e39"), INFINITY);
  EXPECT_EQ(read("1e-42"), 1e-42f);
  for (const char* bad : {"1_0", "1.5f", "abc", "1 2"}) {
    EXPECT_THAT(ErrorOf(bad, {kFloat}), HasSubstr("is not a valid float32")) << bad;
  }
}

TEST(CsvParser, ARecordHasJustItsFields) {
  EXPECT_THAT(ErrorOf("1,2", Strings(3)), HasSubstr("the record has 2 fields, not 3"));
  EXPECT_THAT(ErrorOf("1,2,3", Strings(2)), HasSubstr("the record has 3 fields, not 2"));
  CsvColumn passed_over{.name = "s", .is_read = false};
  const Parsed parsed = Parse("1,junk,3", {kInt, passed_over, kInt});
  EXPECT_THAT(parsed.values[2].ints, ElementsAre(3));
  EXPECT_EQ(parsed.values[1].size(), 0u);
}

TEST(CsvParser, BytesAreTakenAsTheyAre) {
  EXPECT_THAT(ParseStrings("\xef\xbb\xbf"
                           "1,a",
                           2),
              ElementsAre("\xef\xbb\xbf"
                          "1",
                          "a"));
  EXPECT_THAT(ParseStrings("\xff\xfe,1", 2), ElementsAre("\xff\xfe", "1"));
  EXPECT_THAT(ParseStrings(std::string("a\0b,1", 5), 2), ElementsAre(std::string("a\0b", 3), "1"));
  CsvOptions tabs;
  tabs.delimiter = '\t';
  EXPECT_THAT(ParseStrings("1,5\ta", 2, tabs), ElementsAre("1,5", "a"));
}

TEST(CsvParser, ARecordWithAnErrorLeavesTheColumnsAsTheyWere) {
  const auto parser = CsvParser::Make({kInt, kFloat}, {});
  std::vector<ColumnValues> values(2);
  StringArena arena;
  EXPECT_TRUE(parser->Append("1,2", absl::MakeSpan(values), arena).ok());
  EXPECT_FALSE(parser->Append("3,x", absl::MakeSpan(values), arena).ok());
  EXPECT_TRUE(parser->Append("5,6", absl::MakeSpan(values), arena).ok());
  EXPECT_THAT(values[0].ints, ElementsAre(1, 5));
  EXPECT_THAT(values[1].floats, ElementsAre(2.0f, 6.0f));
}

TEST(CsvParser, ColumnsThatCannotBeReadAreRefused) {
  CsvColumn column = kFloat;
  column.default_value = Int(1);
  EXPECT_THAT(CsvParser::Make({column}, {}).status().message(),
              HasSubstr("column 'x': its default is not one float32"));
  EXPECT_FALSE(CsvParser::Make({kInt}, {.delimiter = '"'}).ok());
}

}  // namespace
}  // namespace cohort
