// Files of TFRecords against the bytes that TensorFlow's writer made of the same records
// (tests/golden/preprocessing/make_tfrecords.py), and what reads them from front to back.

#include "common/records/record_writer.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/formats/memory_file.h"
#include "common/records/record_stream.h"
#include "common/records/tfrecord.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json Golden() {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/preprocessing/tfrecords.json");
  return json::parse(file);
}

std::string Written(FileCompression compression, const std::vector<std::string>& records) {
  MemoryFileSystem files;
  const auto writer = TfRecordWriter::Create(files, "/a", compression);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const std::string& record : records) EXPECT_TRUE((*writer)->Write(record).ok());
  EXPECT_TRUE((*writer)->Close().ok());
  return ReadFile(files, "/a").value_or("none");
}

TEST(TfRecordWriter, BytesAreThoseOfTensorFlow) {
  const json golden = Golden();
  const auto records = golden.at("records").get<std::vector<std::string>>();
  for (const auto& [name, compression] : {std::pair{"none", FileCompression::kNone},
                                          {"GZIP", FileCompression::kGzip},
                                          {"ZLIB", FileCompression::kZlib}}) {
    EXPECT_EQ(absl::BytesToHexString(Written(compression, records)),
              golden.at("files").at(name).get<std::string>())
        << name;
  }
  EXPECT_EQ(absl::BytesToHexString(Written(FileCompression::kGzip, {})),
            golden.at("files").at("empty gzip").get<std::string>());
}

TEST(TfRecordWriter, AFileThatIsNotClosedIsNotThere) {
  MemoryFileSystem files;
  {
    const auto writer = TfRecordWriter::Create(files, "/a", FileCompression::kNone);
    ASSERT_TRUE(writer.ok());
    EXPECT_TRUE((*writer)->Write(std::string(1 << 20, 'x')).ok());
  }
  EXPECT_THAT(*files.List("/"), testing::IsEmpty());
  EXPECT_FALSE(TfRecordWriter::Create(files, "/none/a", FileCompression::kNone).ok());
}

struct Scan {
  std::vector<std::string> contents;  // or errors
  absl::Status status;
};
Scan ScanOf(const std::string& bytes, size_t stop_at = 1000) {
  Scan scan;
  const RecordFormat format{.kind = RecordFormat::Kind::kTfRecord};
  scan.status =
      ScanRecords(MemoryFile(bytes), "some/file", format, FileCompression::kAuto,
                  [&](const ScannedRecord& record) {
                    EXPECT_EQ(record.number, scan.contents.size());
                    scan.contents.push_back(record.content.ok() ? std::string(*record.content)
                                                                : absl::StrCat(record.offset, "!"));
                    return scan.contents.size() < stop_at;
                  });
  return scan;
}

TEST(RecordStream, GivesRecordsInOrder) {
  // Records across the pieces in which a file is read.
  const std::vector<std::string> records = {"a", std::string(300000, 'b'), "",
                                            std::string(600000, 'c'), "d"};
  for (const auto compression :
       {FileCompression::kNone, FileCompression::kGzip, FileCompression::kZlib}) {
    const Scan scan = ScanOf(Written(compression, records));
    EXPECT_TRUE(scan.status.ok()) << scan.status;
    EXPECT_TRUE(scan.contents == records);
    EXPECT_EQ(ScanOf(Written(compression, records), 2).contents.size(), 2u);
  }
  EXPECT_TRUE(ScanOf("").status.ok());
}

TEST(RecordStream, DamagedRecordsAreToldAndPassedOver) {
  std::string bytes = Written(FileCompression::kNone, {"abc", "def", "ghi"});
  bytes[19 + 13] ^= 1;  // in the data of the second record
  const Scan scan = ScanOf(bytes);
  EXPECT_TRUE(scan.status.ok()) << scan.status;
  EXPECT_THAT(scan.contents, ElementsAre("abc", "19!", "ghi"));
  // Behind a damaged length nothing can be found.
  bytes[19 + 2] ^= 1;
  const Scan ended = ScanOf(bytes);
  EXPECT_THAT(ended.contents, ElementsAre("abc"));
  EXPECT_THAT(ended.status.message(), testing::AllOf(HasSubstr("some/file"), HasSubstr("19")));
  EXPECT_FALSE(ScanOf(Written(FileCompression::kNone, {"abc"}).substr(0, 15)).status.ok());
}

}  // namespace
}  // namespace cohort
