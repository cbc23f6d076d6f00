// Files of records of every format: which records there are, and that each is read in any order.

#include "common/records/record_file.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/memory_file.h"
#include "common/records/tfrecord.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/packed.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Strings = std::vector<std::string>;

const RecordFormat kTfRecords{.kind = RecordFormat::Kind::kTfRecord};
const RecordFormat kLines{.kind = RecordFormat::Kind::kTextLines};
const RecordFormat kCsv{.kind = RecordFormat::Kind::kCsv};

std::string Gzip(const std::string& data) { return Packed(data, kGzipBits); }

absl::StatusOr<std::unique_ptr<RecordFile>> Open(
    const std::string& bytes, const RecordFormat& format,
    FileCompression compression = FileCompression::kAuto) {
  auto file = std::make_unique<MemoryFile>(bytes);
  ASSIGN_OR_RETURN(FileIndex index, IndexFile(*file, "some/file", format, compression));
  return std::make_unique<RecordFile>(std::move(file), "some/file", format, std::move(index),
                                      std::make_shared<SpanCache>(size_t{1} << 20));
}

absl::StatusOr<Strings> ReadAll(const std::string& bytes, const RecordFormat& format,
                                FileCompression compression = FileCompression::kAuto) {
  ASSIGN_OR_RETURN(const auto file, Open(bytes, format, compression));
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < file->records(); ++i) numbers.push_back(i);
  RecordBatch batch;
  RETURN_IF_ERROR(file->Read(numbers, batch));
  return Strings(batch.records.begin(), batch.records.end());
}

std::string TfRecords(const Strings& records) {
  std::string file;
  for (const std::string& record : records) AppendTfRecord(record, file);
  return file;
}

// The rows csv/* and tfrecord/* of TensorFlow's golden values.
TEST(RecordFile, TextLinesAreThoseOfTensorFlow) {
  EXPECT_THAT(*ReadAll("a\nb\r\n\nc", kLines), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(*ReadAll("a\nb\rc\n", kLines), ElementsAre("a", "bc"));
  EXPECT_THAT(*ReadAll("", kLines), IsEmpty());
  EXPECT_THAT(*ReadAll("\n", kLines), ElementsAre(""));
}

TEST(RecordFile, CsvRecordsEndAsInTensorFlow) {
  EXPECT_THAT(*ReadAll("1,2\n3,4\r\n5,6\r7,8", kCsv), ElementsAre("1,2", "3,4", "5,6", "7,8"));
  EXPECT_THAT(*ReadAll("a,\"x\ny\"\nb,\"z\"\"\r\n\"\n", kCsv),
              ElementsAre("a,\"x\ny\"", "b,\"z\"\"\r\n\""));
  EXPECT_THAT(*ReadAll("1\n\n2\n", kCsv), ElementsAre("1", "", "2"));
  EXPECT_THAT(*ReadAll("\r\r\n\r", kCsv), ElementsAre("", "", ""));
  EXPECT_THAT(ReadAll("1\n\"2\n3\n", kCsv).status().message(),
              HasSubstr("inside the record at byte 2, in a quoted field"));
  RecordFormat plain = kCsv;
  plain.quotes = false;
  EXPECT_THAT(*ReadAll("1\n\"2\n3\n", plain), ElementsAre("1", "\"2", "3"));
}

// The form of the UCI Adult data: a comment, and an empty line at the end.
TEST(RecordFile, CommentsAndBlankLinesArePassedOver) {
  RecordFormat format = kCsv;
  format.comment = "|";
  format.skip_blank = true;
  EXPECT_THAT(*ReadAll("|1x3 \"Cross\r\n25, a\r\n\r\n|\n38, |b\n\n", format),
              ElementsAre("25, a", "38, |b"));
  EXPECT_THAT(*ReadAll("|only", format), IsEmpty());
  EXPECT_THAT(*ReadAll("\n\r\n", format), IsEmpty());
  EXPECT_THAT(*ReadAll("\"|a\"\n|b\n\"\n\n\"", format), ElementsAre("\"|a\"", "\"\n\n\""));
  format.comment = "//";
  EXPECT_THAT(*ReadAll("/a\n//b\n/", format), ElementsAre("/a", "/"));
}

TEST(RecordFile, FixedLengthRecordsHaveAHeaderAndAFooter) {
  RecordFormat format{.kind = RecordFormat::Kind::kFixedLength, .bytes = 2};
  EXPECT_THAT(*ReadAll("aabbcc", format), ElementsAre("aa", "bb", "cc"));
  EXPECT_THAT(ReadAll("aabbc", format).status().message(),
              HasSubstr("the record at byte 4, after 1 of 2 bytes"));
  format.header_bytes = 3;
  format.footer_bytes = 1;
  EXPECT_THAT(*ReadAll("###aabb!", format), ElementsAre("aa", "bb"));
  EXPECT_THAT(*ReadAll(Gzip("###aabb!"), format), ElementsAre("aa", "bb"));
  EXPECT_THAT(*ReadAll("###!", format), IsEmpty());
  EXPECT_THAT(ReadAll("###", format).status().message(), HasSubstr("shorter than its header"));
}

TEST(RecordFile, TfRecordsOfSeveralMembersAreAllRead) {
  const std::string one = TfRecords({"abc", ""});
  EXPECT_THAT(*ReadAll(Gzip(one) + Gzip(one), kTfRecords), ElementsAre("abc", "", "abc", ""));
  EXPECT_THAT(*ReadAll("", kTfRecords), IsEmpty());
  // TensorFlow takes the first for the end of the data.
  EXPECT_THAT(ReadAll(one.substr(0, 25), kTfRecords).status().message(),
              HasSubstr("some/file: the file ends inside the record at byte 19's header"));
  EXPECT_THAT(ReadAll(one.substr(0, 17), kTfRecords).status().message(),
              HasSubstr("ends inside the record at byte 0"));
}

TEST(RecordFile, ADamagedRecordIsNamedWithItsNumber) {
  std::string file = TfRecords({"abc", "def"});
  file[19 + 12] ^= 1;
  EXPECT_THAT(ReadAll(file, kTfRecords).status().message(),
              HasSubstr("some/file: record 1: the record at byte 19 is damaged"));
}

TEST(RecordFile, ACompressionThatTheContentContradictsIsRefused) {
  const std::string plain = TfRecords({"abc"});
  EXPECT_THAT(ReadAll(plain, kTfRecords, FileCompression::kGzip).status().message(),
              HasSubstr("set to gzip, and its content is not compressed"));
  EXPECT_THAT(ReadAll(Gzip(plain), kTfRecords, FileCompression::kNone).status().message(),
              HasSubstr("set to none, and its content is gzip"));
  EXPECT_THAT(*ReadAll("", kTfRecords, FileCompression::kGzip), IsEmpty());
  // The length of this record begins with zlib's two bytes.
  const Strings records = {std::string(0x9c78, 'x')};
  EXPECT_EQ(*ReadAll(TfRecords(records), kTfRecords), records);
}

TEST(RecordFile, RecordsAreReadInAnyOrder) {
  const uint64_t seed = TestSeed(5);
  SequenceRng rng(seed);
  Strings records;
  for (int i = 0; i < 3000; ++i)
    records.push_back(
        std::string(rng.Below(rng.Below(20) == 0 ? 20000 : 200), static_cast<char>('a' + i % 26)));
  std::string lines;
  for (const std::string& record : records) absl::StrAppend(&lines, record, "\n");
  for (const auto& [bytes, format] : {std::pair{TfRecords(records), kTfRecords},
                                      {lines, kLines},
                                      {lines, kCsv},
                                      {Gzip(TfRecords(records)), kTfRecords},
                                      {Gzip(lines), kCsv}}) {
    const auto file = Open(bytes, format);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ((*file)->records(), records.size());
    for (int round = 0; round < 20; ++round) {
      std::vector<uint64_t> numbers;
      Strings expected;
      for (uint64_t i = rng.Below(20); i > 0; --i) {
        uint64_t number = rng.Below(records.size());
        for (uint64_t run = rng.Below(200); run > 0 && number < records.size(); --run) {
          numbers.push_back(number);
          expected.push_back(records[number]);
          number += 1 + rng.Below(3);
        }
      }
      RecordBatch batch;
      const absl::Status read = (*file)->Read(numbers, batch);
      ASSERT_TRUE(read.ok()) << read << " seed " << seed;
      ASSERT_EQ(Strings(batch.records.begin(), batch.records.end()), expected) << "seed " << seed;
    }
    RecordBatch batch;
    EXPECT_TRUE(absl::IsOutOfRange((*file)->Read({records.size()}, batch)));
  }
}

}  // namespace
}  // namespace cohort
