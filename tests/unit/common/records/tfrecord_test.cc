// Bytes that TensorFlow 2.21 wrote, and what it makes of damage (the rows tfrecord/* of its golden
// values).

#include "common/records/tfrecord.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr char kThree[] =
    "0300000000000000b099490e6162636e57f121"
    "000000000000000029039807d8ea82a2"
    "0500000000000000eab2043e78787878783eda1095";

TEST(TfRecord, IsWrittenAsTensorFlowWritesIt) {
  std::string file;
  for (const char* record : {"abc", "", "xxxxx"}) AppendTfRecord(record, file);
  EXPECT_EQ(absl::BytesToHexString(file), kThree);
}

TEST(TfRecord, HeadersAndDataAreChecked) {
  const std::string file = absl::HexStringToBytes(kThree);
  EXPECT_TRUE(LooksLikeTfRecord(file));
  ASSERT_EQ(*ReadTfRecordHeader(file, 0), 3u);
  EXPECT_TRUE(CheckTfRecord("abc", file.substr(15), 0).ok());
  // Every flipped bit of the record is noticed.
  for (size_t bit = 0; bit < 19 * 8; ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const bool header = ReadTfRecordHeader(damaged, 0).ok();
    EXPECT_EQ(header, bit / 8 >= kTfRecordHeaderBytes) << bit;
    if (header) {
      EXPECT_THAT(CheckTfRecord(damaged.substr(12, 3), damaged.substr(15), 40).message(),
                  HasSubstr("the record at byte 40 is damaged"));
    }
  }
  EXPECT_FALSE(LooksLikeTfRecord(file.substr(0, 11)));
}

TEST(TfRecord, AFileOfAnotherKindIsNamedAsSuch) {
  EXPECT_THAT(ReadTfRecordHeader("age,workclass,fnlwgt", 0).status().message(),
              HasSubstr("no TFRecord file, or be compressed"));
}

TEST(TfRecord, ARecordIsNoLargerThanAMessage) {
  std::string header;
  AppendTfRecord("", header);
  header = header.substr(0, 12);
  // The header of a record of 2 GiB, with the checksum that belongs to it.
  const std::string large = absl::HexStringToBytes("0000008000000000");
  EXPECT_EQ(large.size(), 8u);
  std::string file;
  AppendTfRecord(large, file);
  EXPECT_FALSE(ReadTfRecordHeader(large + file.substr(20, 4), 7).ok());
  EXPECT_THAT(ReadTfRecordHeader(large + file.substr(20, 4), 7).status().message(),
              HasSubstr("the record at byte 7 has 2147483648 bytes"));
}

}  // namespace
}  // namespace cohort
