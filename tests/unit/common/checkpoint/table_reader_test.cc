// The table reader against tables that leveldb wrote, snappy-compressed or not, of many blocks.

#include "common/checkpoint/table_reader.h"

#include <gtest/gtest.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include "absl/strings/str_format.h"
#include "common/base/temporary_file.h"
#include "tests/unit/common/checkpoint/crash_disk.h"

namespace cohort {
namespace {

class StringFile final : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  std::string bytes;
};

using Entries = std::map<std::string, std::string>;

Entries ManyEntries() {
  Entries entries;
  for (int i = 0; i < 2000; ++i) {
    entries[absl::StrFormat("model/layer%04d/kernel", i)] =
        std::string(static_cast<size_t>(i % 90), static_cast<char>('a' + i % 3));
  }
  entries[""] = "header";
  entries[std::string("\0\xff\0\x01", 4)] = "binary";
  return entries;
}

std::string Build(const Entries& entries, const leveldb::Options& options) {
  StringFile file;
  leveldb::TableBuilder builder(options, &file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  EXPECT_TRUE(builder.Finish().ok());
  return file.bytes;
}

absl::StatusOr<Entries> ReadBack(const std::string& bytes) {
  CrashDisk disk(CrashDisk::kNever);
  RETURN_IF_ERROR(WriteFileAtomically(disk, "d/t", bytes));
  ASSIGN_OR_RETURN(const auto file, disk.Open("d/t"));
  Entries entries;
  RETURN_IF_ERROR(
      ForEachTableEntry(*file, "d/t", [&](absl::string_view key, absl::string_view value) {
        entries[std::string(key)] = std::string(value);
        return absl::OkStatus();
      }));
  return entries;
}

TEST(TableReader, ReadsWhatLeveldbWrote) {
  const Entries entries = ManyEntries();
  for (const auto compression : {leveldb::kNoCompression, leveldb::kSnappyCompression}) {
    for (const size_t block_size : {size_t{100}, size_t{4096}, size_t{262144}}) {
      leveldb::Options options;
      options.compression = compression;
      options.block_size = block_size;
      auto back = ReadBack(Build(entries, options));
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, entries);
    }
  }
}

TEST(TableReader, CompressedTableIsReallyCompressed) {
  leveldb::Options plain, compressed;
  plain.compression = leveldb::kNoCompression;
  EXPECT_LT(Build(ManyEntries(), compressed).size(), Build(ManyEntries(), plain).size() / 2);
}

// With filters there is a block that the reader does not know; it must not mind.
TEST(TableReader, IgnoresFilters) {
  const std::unique_ptr<const leveldb::FilterPolicy> policy(leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.filter_policy = policy.get();
  auto back = ReadBack(Build(ManyEntries(), options));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, ManyEntries());
}

TEST(TableReader, EveryByteOfACompressedTableIsCovered) {
  Entries entries;
  for (int i = 0; i < 30; ++i) entries[absl::StrCat("tensor", 10 + i)] = std::string(40, 'x');
  leveldb::Options options;
  options.block_size = 300;
  const std::string good = Build(entries, options);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    ASSERT_TRUE(absl::IsDataLoss(ReadBack(bad).status())) << i;
  }
}

TEST(TableReader, StopsAtTheVisitorsError) {
  CrashDisk disk(CrashDisk::kNever);
  ASSERT_TRUE(WriteFileAtomically(disk, "d/t", Build(ManyEntries(), {})).ok());
  const auto file = disk.Open("d/t");
  int visits = 0;
  const absl::Status status =
      ForEachTableEntry(**file, "d/t", [&](absl::string_view, absl::string_view) {
        return ++visits < 3 ? absl::OkStatus() : absl::CancelledError("enough");
      });
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(visits, 3);
}

}  // namespace
}  // namespace cohort
