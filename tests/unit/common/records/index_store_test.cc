#include "common/records/index_store.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/records/tfrecord.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::HasSubstr;

const RecordFormat kLines{.kind = RecordFormat::Kind::kTextLines};

void Put(FileSystem& files, const std::string& path, const std::string& bytes) {
  ASSERT_TRUE(files.MakeDirectories(DirectoryOf(path)).ok());
  auto file = files.Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append(bytes).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
}

class IndexStoreTest : public testing::Test {
 protected:
  uint64_t Records(const RecordFormat& format = kLines) {
    const auto file = files.Open("/data/x");
    EXPECT_TRUE(file.ok()) << file.status();
    const auto index =
        IndexStore(files, "/cache").Get(**file, "/data/x", format, FileCompression::kAuto);
    EXPECT_TRUE(index.ok()) << index.status();
    return index.ok() ? index->records.records : 0;
  }
  std::string Stored(const std::string& path = "/data/x.cohort-index") {
    return ReadFile(files, path).value_or("");
  }

  MemoryFileSystem files;
};

TEST_F(IndexStoreTest, AnIndexIsMadeOnceForAFileAndAFormat) {
  Put(files, "/data/x", "a\nb\nc");
  EXPECT_EQ(Records(), 3u);
  const std::string stored = Stored();
  ASSERT_FALSE(stored.empty());
  const auto file = files.Open("/data/x");
  const auto fingerprint = FingerprintOf(**file);
  auto restored = RestoreIndex(stored, kLines, *fingerprint);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->records.records, 3u);
  // Another format, and other content of the same length, need an index of their own.
  const RecordFormat csv{.kind = RecordFormat::Kind::kCsv};
  EXPECT_TRUE(absl::IsNotFound(RestoreIndex(stored, csv, *fingerprint).status()));
  ASSERT_TRUE(files.Remove("/data/x").ok());
  Put(files, "/data/x", "a\nbbb");
  EXPECT_EQ(Records(), 2u);
  EXPECT_NE(Stored(), stored);
}

TEST_F(IndexStoreTest, ADamagedIndexIsMadeAnew) {
  Put(files, "/data/x", "a\nb\nc");
  Records();
  const std::string stored = Stored();
  for (size_t at = 0; at < stored.size(); ++at) {
    std::string damaged = stored;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    ASSERT_TRUE(files.Remove("/data/x.cohort-index").ok());
    Put(files, "/data/x.cohort-index", damaged);
    ASSERT_EQ(Records(), 3u) << at;
  }
}

// The checksum of an index does not make its numbers true.
TEST_F(IndexStoreTest, NumbersOfAnIndexThatCannotBeAreRefused) {
  FileIndex index;
  const proto::FileFingerprint file = [] {
    proto::FileFingerprint made;
    made.set_bytes(10);
    return made;
  }();
  const auto error = [&](const FileIndex& one) {
    return RestoreIndex(StoreIndex(one, kLines, file), kLines, file).status();
  };
  EXPECT_TRUE(error(index).ok());
  index.records.records = 2;
  EXPECT_THAT(error(index).message(), HasSubstr("damaged")) << "records without places";
  index.records.end = 4;
  index.records.places = {{0, 0}};
  EXPECT_TRUE(error(index).ok()) << error(index);
  index.records.end = 11;
  EXPECT_FALSE(error(index).ok()) << "beyond the file";
  index.records.end = 4;
  index.records.places = {{0, 0}, {1, 5}};
  EXPECT_FALSE(error(index).ok()) << "beyond the end";
  index.records.places = {{0, 0}, {2, 3}};
  EXPECT_FALSE(error(index).ok()) << "a record that is not";
  index.records.places = {{1, 0}};
  EXPECT_FALSE(error(index).ok()) << "no place for record 0";
  index.records.places = {{0, 0}};
  index.compression = FileCompression::kGzip;
  index.unpacked.size = 4;
  EXPECT_FALSE(error(index).ok()) << "no restart point";
  index.unpacked.points = {{.unpacked = 0, .packed = 3, .bits = 9}};
  index.unpacked.checksums = {0};
  EXPECT_FALSE(error(index).ok()) << "nine bits";
  index.unpacked.points[0].bits = 1;
  EXPECT_TRUE(error(index).ok()) << error(index);
  index.unpacked.points[0].packed = 11;
  EXPECT_FALSE(error(index).ok()) << "beyond the packed file";
}

TEST(IndexStoreOnDisk, KnowsTheTimeOfAChange) {
  PosixFileSystem files;
  const auto file = files.Open(COHORT_SOURCE_DIR "/README.md");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_GT((*file)->modified_ns(), int64_t{1'500'000'000} * 1'000'000'000);
}

}  // namespace
}  // namespace cohort
