// Click logs: the first line of Criteo's own file, and rows that are made.

#include "worker/data/click_log.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/temporary_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/click_row_text.h"
#include "tests/support/world/memory_file_system.h"
#include "worker/data/dataset.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

// The first row of train.txt of Criteo's display advertising challenge.
constexpr char kCriteo[] =
    "0\t1\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t"
    "25c83c98\t7e0ccccf\tde7995b8\t1f89b562\ta73ee510\ta8cd5504\tb2cb9c98\t37c9c164\t2824a5f6\t"
    "1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9\t21ddcdc9\tb1252a9d\t07b5194c\t\t3a171ecb\t"
    "c5c50484\te8b83407\t9727dd16";

proto::ClickLog Log(int64_t buckets) {
  proto::ClickLog log;
  for (int i = 0; i < 26; ++i) log.add_buckets(buckets + i);
  return log;
}

TEST(ClickLog, ReadsALineOfCriteos) {
  const auto row = ParseClickRow(kCriteo);
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_FALSE(row->click);
  EXPECT_EQ(row->integers[4], 1382);
  EXPECT_EQ(row->integers[11], std::nullopt);
  EXPECT_EQ(row->integers[12], 2);
  EXPECT_EQ(row->categories[0], 0x68fd1e64u);
  EXPECT_EQ(row->categories[21], std::nullopt);
  EXPECT_EQ(row->categories[25], 0x9727dd16u);
  EXPECT_EQ(ClickRowText(*row), kCriteo);
}

TEST(ClickLog, AFileBecomesColumns) {
  MemoryFileSystem files;
  const std::string second = absl::StrReplaceAll(kCriteo, {{"0\t1\t1\t5", "1\t-2\t\t5"}});
  ASSERT_TRUE(WriteFileAtomically(files, "/log", absl::StrCat(kCriteo, "\n", second)).ok());
  proto::DatasetSpec spec;
  *spec.mutable_source()->mutable_click_log() = Log(100);
  spec.mutable_source()->mutable_click_log()->add_paths("/log");
  spec.add_transforms()->mutable_batch()->set_size(8);
  SourceCache sources(files, "");
  const auto dataset = Dataset::Build(spec, sources);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const proto::ElementSpec& element = (*dataset)->element_spec();
  ASSERT_EQ(element.components_size(), 28);
  EXPECT_EQ(element.components(0).name(), "dense");
  EXPECT_EQ(element.components(26).name(), "C26");
  EXPECT_EQ(element.components(27).name(), "label");
  const auto batch = (*dataset)->ElementAt({});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)[0].shape(), (Shape{2, 13}));
  EXPECT_EQ((*batch)[0].data<float>()[4], std::log1p(1382.0f));
  EXPECT_EQ((*batch)[0].data<float>()[11], 0);  // missing
  EXPECT_EQ((*batch)[0].data<float>()[13], 0);  // negative
  EXPECT_EQ((*batch)[1].data<int32_t>()[0], 0x68fd1e64 % 100);
  EXPECT_EQ((*batch)[26].data<int32_t>()[1], 0x9727dd16 % 125);
  EXPECT_EQ((*batch)[22].data<int32_t>()[0], 0);
  EXPECT_EQ((*batch)[27].data<int32_t>()[0], 0);
  EXPECT_EQ((*batch)[27].data<int32_t>()[1], 1);
}

TEST(ClickLog, ErrorsNameFileLineAndField) {
  const struct {
    std::string line;
    const char* says;
  } cases[] = {{"0\t1", "it has 2 fields between tabs, not 40"},
               {absl::StrReplaceAll(kCriteo, {{"1382", "13.5"}}), "field 6 is '13.5'"},
               {absl::StrReplaceAll(kCriteo, {{"68fd1e64", "68fd1e64f"}}), "field 15"},
               {absl::StrReplaceAll(kCriteo, {{"0\t1\t1", "2\t1\t1"}}), "field 1 is '2'"}};
  for (const auto& one : cases) {
    MemoryFileSystem files;
    ASSERT_TRUE(
        WriteFileAtomically(files, "/log", absl::StrCat(kCriteo, "\n", one.line, "\n")).ok());
    // Lines are counted in each file anew.
    ASSERT_TRUE(WriteFileAtomically(files, "/first", absl::StrCat(kCriteo, "\n")).ok());
    proto::ClickLog log = Log(10);
    log.add_paths("/first");
    log.add_paths("/log");
    const absl::Status status = ReadClickLog(log, files).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("/log: line 2: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.says));
  }
  MemoryFileSystem files;
  EXPECT_THAT(std::string(ReadClickLog(Log(0), files).status().message()),
              HasSubstr("click_log.buckets"));
  EXPECT_THAT(std::string(ReadClickLog(Log(1), files).status().message()),
              HasSubstr("click_log.count is 0"));
}

TEST(ClickLog, MadeRowsDependOnSeedAndIndexAlone) {
  int clicks = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const ClickRow row = MakeClickRow(3, i);
    EXPECT_EQ(row, MakeClickRow(3, i));
    clicks += row.click ? 1 : 0;
    const auto again = ParseClickRow(ClickRowText(row));
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, row);
  }
  EXPECT_NE(MakeClickRow(3, 0), MakeClickRow(3, 1));
  EXPECT_NE(MakeClickRow(3, 0), MakeClickRow(4, 0));
  EXPECT_GT(clicks, 300);
  EXPECT_LT(clicks, 1200);
}

}  // namespace
}  // namespace cohort
