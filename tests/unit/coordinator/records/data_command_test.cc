// `coordinator data` on files in memory.

#include "coordinator/records/data_command.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/records/record_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/packed.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class DataCommandTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(files_, path, bytes).ok());
  }
  InspectResult Run(std::vector<std::string> words) {
    words.insert(words.begin(), "data");
    return RunDataCommand(words, files_);
  }
  // Returns what a command that succeeds prints as JSON.
  json JsonOf(std::vector<std::string> words) {
    words.emplace_back("--json");
    const InspectResult result = Run(words);
    EXPECT_EQ(result.error, "");
    return json::parse(result.output, nullptr, false);
  }
  std::string Content(const std::string& path) { return ReadFile(files_, path).value_or("none"); }

  MemoryFileSystem files_;
};

TEST_F(DataCommandTest, CsvBecomesTfRecordsAndComesBack) {
  const std::string csv = "age,job,pay\n25,\"clerk, \"\"old\"\"\",1.5\n,smith,2\n40,,-1e-3\n";
  Put("/a.csv", csv);
  InspectResult converted = Run({"convert", "/a.csv", "/a.tfrecord.gz"});
  EXPECT_EQ(converted.code, kExitOk) << converted.error;
  EXPECT_EQ(converted.output, "wrote 3 records to /a.tfrecord.gz\n");
  const json records = JsonOf({"head", "/a.tfrecord.gz"});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0], json::parse(R"({"age": [25], "job": ["clerk, \"old\""], "pay": [1.5]})"));
  EXPECT_EQ(records[1], json::parse(R"({"job": ["smith"], "pay": [2.0]})"));
  EXPECT_EQ(Run({"convert", "/a.tfrecord.gz", "/b.csv"}).code, kExitOk);
  EXPECT_EQ(Content("/b.csv"),
            "age,job,pay\n25,\"clerk, \"\"old\"\"\",1.5\n,smith,2\n40,,-0.001\n");
  EXPECT_EQ(Run({"convert", "/b.csv", "/c.tsv"}).code, kExitOk);
  EXPECT_THAT(Content("/c.tsv"), HasSubstr("25\t\"clerk, \"\"old\"\"\"\t1.5\n"));
}

// What a number would lose stays a text.
TEST_F(DataCommandTest, ConversionsKeepEveryValue) {
  Put("/a.csv",
      "\xef\xbb\xbfzip,big,mixed,whole\n007,9223372036854775808,16777217,5\n008,1,0.5,-6\n");
  EXPECT_EQ(Run({"convert", "/a.csv", "/a.tfrecord"}).code, kExitOk);
  EXPECT_EQ(JsonOf({"head", "/a.tfrecord", "--records", "1"})[0],
            json::parse(R"({"big": ["9223372036854775808"], "mixed": ["16777217"], "whole": [5],
                            "zip": ["007"]})"));
  Put("/b.csv", "a,\n1,2\n");
  EXPECT_THAT(Run({"convert", "/b.csv", "/b.tfrecord"}).error,
              HasSubstr("record 0: has a column without a name"));
  // A SequenceExample with a feature list.
  const auto writer = TfRecordWriter::Create(files_, "/s.tfrecord", FileCompression::kNone);
  ASSERT_TRUE((*writer)->Write("\x12\x05\x0a\x03\x0a\x01\x61").ok());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_THAT(Run({"convert", "/s.tfrecord", "/s.csv"}).error, HasSubstr("SequenceExample"));
  EXPECT_THAT(Run({"head", "/a.csv", "--records", "-3"}).error, HasSubstr("--records is -3"));
}

TEST_F(DataCommandTest, LinesOfTextBecomeRecords) {
  Put("/a.txt.gz", Packed("one\ntwo\n", kGzipBits));
  EXPECT_EQ(Run({"convert", "/a.txt.gz", "/a.tfrecord"}).code, kExitOk);
  EXPECT_EQ(JsonOf({"head", "/a.tfrecord", "--records", "1"}),
            json::parse(R"([{"text": ["one"]}])"));
  EXPECT_EQ(JsonOf({"head", "/a.txt.gz"})[1], json::parse(R"({"text": ["two"]})"));
}

TEST_F(DataCommandTest, FilesAreCountedAndChecked) {
  Put("/a.csv", "x,y\n1,2\n\n");
  const auto writer = TfRecordWriter::Create(files_, "/b.tfrecord", FileCompression::kNone);
  for (const char* record : {"abc", "def", "ghi"}) ASSERT_TRUE((*writer)->Write(record).ok());
  ASSERT_TRUE((*writer)->Close().ok());
  json counted = JsonOf({"count", "/a.csv", "/b.tfrecord"});
  EXPECT_EQ(counted[0]["records"], 2);
  EXPECT_EQ(counted[1]["records"], 3);
  EXPECT_EQ(counted[1]["format"], "TFRecord");
  EXPECT_EQ(counted[1]["bytes"], 9);
  InspectResult checked = Run({"check", "/a.csv", "/b.tfrecord"});
  EXPECT_EQ(checked.code, kExitOk);
  EXPECT_THAT(checked.output, HasSubstr("5 records, no damage\n"));
  std::string damaged = Content("/b.tfrecord");
  damaged[19 + 13] ^= 1;
  Put("/c.tfrecord", damaged);
  Put("/d.tfrecord", damaged.substr(0, 45));
  Put("/e.gz", Packed("a\nb\n", kGzipBits).substr(0, 18));
  checked = Run({"check", "/b.tfrecord", "/c.tfrecord", "/d.tfrecord", "/e.gz", "/none"});
  EXPECT_EQ(checked.code, kExitJobFailed);
  EXPECT_THAT(checked.output, AllOf(HasSubstr("record 1 at byte 19"), HasSubstr("/d.tfrecord"),
                                    HasSubstr("/e.gz"), HasSubstr("/none")));
  EXPECT_EQ(JsonOf({"check", "/c.tfrecord"})[0]["damage"].size(), 1u);
}

TEST_F(DataCommandTest, IndexesAreMadeBesideTheFiles) {
  Put("/a.txt.gz", Packed("one\ntwo\n", kGzipBits));
  const json made = JsonOf({"index", "/a.txt.gz"});
  EXPECT_EQ(made[0]["records"], 2);
  EXPECT_EQ(made[0]["restart_points"], 1);
  EXPECT_TRUE(files_.Open("/a.txt.gz.cohort-index").ok());
}

TEST_F(DataCommandTest, MistakesAreNamedWithTheWayOut) {
  const auto error = [&](std::vector<std::string> words) {
    const InspectResult result = Run(std::move(words));
    EXPECT_EQ(result.code, kExitBadConfig);
    EXPECT_EQ(result.output, "");
    return result.error;
  };
  EXPECT_THAT(error({}), HasSubstr("data needs a verb; write head FILE, count FILE..."));
  EXPECT_THAT(error({"tail", "/a"}), HasSubstr("'tail' is not a verb"));
  EXPECT_THAT(error({"head", "/none"}), HasSubstr("/none"));
  EXPECT_THAT(error({"head", "s3://b/a"}), HasSubstr("s3://b/a"));
  Put("/a.parquet", "PAR1xxxx");
  EXPECT_THAT(error({"head", "/a.parquet"}), HasSubstr("is Parquet, which is not read; convert"));
  Put("/a.zst", "\x28\xb5\x2f\xfd....");
  EXPECT_THAT(error({"head", "/a.zst"}), HasSubstr("packed by zstd, which is not read"));
  Put("/a.idx.gz", Packed(std::string("\0\0\x08\1\0\0\0\1x", 9), kGzipBits));
  EXPECT_THAT(error({"head", "/a.idx.gz"}), HasSubstr("/a.idx.gz: is an IDX file"));
  Put("/a.csv", "x,x\n1,2\n");
  EXPECT_THAT(error({"convert", "/a.csv", "/a.tfrecord"}),
              HasSubstr("/a.csv: record 0: names a column twice"));
  EXPECT_FALSE(files_.Open("/a.tfrecord").ok());
  Put("/b.csv", "x,y\n1,2\n3\n");
  EXPECT_THAT(error({"convert", "/b.csv", "/a.tfrecord"}),
              HasSubstr("/b.csv: record 2: has 1 fields, and the first record 2"));
  Put("/c.csv", "x\n\"1\"2\n");
  EXPECT_THAT(error({"convert", "/c.csv", "/a.tfrecord"}), HasSubstr("/c.csv"));
  EXPECT_THAT(error({"convert", "/b.csv", "/b.csv"}), HasSubstr("is the file that is converted"));
  EXPECT_THAT(error({"convert", "/b.csv", "/b.dat"}), HasSubstr("its ending says no format"));
  EXPECT_THAT(error({"convert", "/b.csv", "/b.txt"}), HasSubstr("CSV is not converted to text"));
}

}  // namespace
}  // namespace cohort
