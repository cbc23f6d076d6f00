// Packed files that zlib, gzip and TensorFlow wrote, read at any place and damaged in many.

#include "common/records/unpacked/unpacked_file.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/formats/memory_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/packed.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// Text that packs to about a third, in blocks of tens of kilobytes.
std::string SomeText(size_t bytes, uint64_t seed) {
  SequenceRng rng(seed);
  std::string text;
  while (text.size() < bytes) absl::StrAppend(&text, "word", rng.Below(5000), " ");
  text.resize(bytes);
  return text;
}

struct Indexed {
  absl::Status status;
  std::string unpacked;
  UnpackedIndex index;
};
Indexed IndexOf(const std::string& packed, FileCompression compression) {
  Indexed indexed;
  const MemoryFile file(packed);
  const std::string path = "some/file";
  auto index = IndexUnpacked(file, path, compression, [&](absl::string_view bytes) {
    indexed.unpacked.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  });
  indexed.status = index.status();
  if (index.ok()) indexed.index = *std::move(index);
  return indexed;
}

std::unique_ptr<ReadableFile> Open(const std::string& packed, FileCompression compression,
                                   UnpackedIndex index,
                                   std::shared_ptr<SpanCache> cache = nullptr) {
  return OpenUnpacked(std::make_unique<MemoryFile>(packed), "some/file", compression,
                      std::move(index), std::move(cache));
}

absl::StatusOr<std::string> ReadAt(const ReadableFile& file, uint64_t offset, size_t bytes) {
  std::string out(bytes, '\0');
  absl::Status status = file.Read(offset, absl::MakeSpan(out));
  if (!status.ok()) return status;
  return out;
}

TEST(UnpackedFile, IsReadAtAnyPlace) {
  const uint64_t seed = TestSeed(3);
  const std::string data = SomeText(5 << 20, seed);
  const std::string half = SomeText(2 << 20, seed + 1);
  const std::pair<FileCompression, std::string> cases[] = {
      {FileCompression::kGzip, Packed(data, kGzipBits)},
      {FileCompression::kZlib, Packed(data, kZlibBits)},
      {FileCompression::kGzip, Packed(half, kGzipBits) + Packed(data, kGzipBits, 1)},
      {FileCompression::kZlib, Packed(half, kZlibBits) + Packed(data, kZlibBits, 9)}};
  for (const auto& [compression, packed] : cases) {
    Indexed indexed = IndexOf(packed, compression);
    ASSERT_TRUE(indexed.status.ok()) << indexed.status;
    const std::string& all = indexed.unpacked;
    EXPECT_TRUE(all == data || all == half + data);
    EXPECT_EQ(indexed.index.size, all.size());
    EXPECT_GE(indexed.index.points.size(), 4u);
    EXPECT_LE(indexed.index.points.size(), 8u);
    // Without a cache, with one that keeps all, and with one that keeps a span or two.
    for (const auto& cache : {std::shared_ptr<SpanCache>(), std::make_shared<SpanCache>(64 << 20),
                              std::make_shared<SpanCache>(5 << 19)}) {
      const auto file = Open(packed, compression, indexed.index, cache);
      SequenceRng rng(seed);
      for (int i = 0; i < 30; ++i) {
        const uint64_t offset = rng.Below(all.size());
        const size_t bytes =
            rng.Below(std::min<uint64_t>(all.size() - offset, 1 << rng.Below(22)) + 1);
        const auto read = ReadAt(*file, offset, bytes);
        ASSERT_TRUE(read.ok()) << read.status() << " seed " << seed;
        ASSERT_TRUE(*read == all.substr(offset, bytes)) << offset << " seed " << seed;
      }
      EXPECT_TRUE(*ReadAt(*file, 0, all.size()) == all);
      EXPECT_TRUE(absl::IsOutOfRange(ReadAt(*file, all.size(), 1).status()));
      EXPECT_TRUE(absl::IsOutOfRange(ReadAt(*file, ~uint64_t{0}, 1).status()));
      EXPECT_TRUE(ReadAt(*file, all.size(), 0).ok());
    }
  }
}

TEST(UnpackedFile, PointsAreBoundedByTheFilesLength) {
  // Members of few bytes each would give a point each.
  std::string packed;
  for (int i = 0; i < 20000; ++i) packed += Packed("x", kGzipBits);
  const Indexed indexed = IndexOf(packed, FileCompression::kGzip);
  ASSERT_TRUE(indexed.status.ok()) << indexed.status;
  EXPECT_EQ(indexed.unpacked, std::string(20000, 'x'));
  EXPECT_EQ(indexed.index.points.size(), 1u);
}

TEST(UnpackedFile, AnEmptyFileUnpacksToNothing) {
  for (const char* packed : {"", "1f8b080000000000000303000000000000000000"}) {
    const Indexed indexed = IndexOf(absl::HexStringToBytes(packed), FileCompression::kGzip);
    EXPECT_TRUE(indexed.status.ok()) << indexed.status;
    EXPECT_EQ(indexed.index.size, 0u);
  }
  EXPECT_TRUE(
      IndexOf(absl::HexStringToBytes("789c030000000001"), FileCompression::kZlib).status.ok());
}

TEST(UnpackedFile, DamageIsNamed) {
  const std::string gzip = Packed("some data", kGzipBits);
  const std::string zlib = Packed("some data", kZlibBits);
  const auto error = [](const std::string& packed, FileCompression compression) {
    return std::string(IndexOf(packed, compression).status.message());
  };
  // TensorFlow reads this one silently.
  EXPECT_THAT(error(gzip.substr(0, gzip.size() - 4), FileCompression::kGzip), HasSubstr("cut off"));
  EXPECT_THAT(error(gzip + std::string(3, '\0'), FileCompression::kGzip),
              HasSubstr("some/file: 3 bytes follow the packed data, which are no further member"));
  EXPECT_THAT(error(zlib + "z", FileCompression::kZlib), HasSubstr("no further stream"));
  EXPECT_THAT(error("plain text", FileCompression::kGzip), HasSubstr("incorrect header check"));
  std::string wrong_sum = gzip;
  wrong_sum[wrong_sum.size() - 5] ^= 1;
  EXPECT_THAT(error(wrong_sum, FileCompression::kGzip), HasSubstr("incorrect data check"));
  for (size_t cut = 1; cut < gzip.size(); ++cut) {
    EXPECT_FALSE(error(gzip.substr(0, cut), FileCompression::kGzip).empty()) << cut;
  }
}

TEST(UnpackedFile, AFileThatChangedSinceItWasIndexedIsNoticed) {
  const std::string data = SomeText(5 << 20, 7);
  const std::string packed = Packed(data, kGzipBits, 0);  // stored blocks: a flip changes one byte
  const Indexed indexed = IndexOf(packed, FileCompression::kGzip);
  ASSERT_TRUE(indexed.status.ok()) << indexed.status;
  std::string changed = packed;
  changed[packed.size() / 2] = static_cast<char>(changed[packed.size() / 2] ^ 1);
  const auto file = Open(changed, FileCompression::kGzip, indexed.index);
  EXPECT_TRUE(ReadAt(*file, 0, 1 << 20).ok());
  EXPECT_THAT(ReadAt(*file, 0, data.size()).status().message(), HasSubstr("has changed"));
}

// Any damage gives the same data or an error, and never a crash.
TEST(UnpackedFile, SurvivesFlippedBits) {
  const uint64_t seed = TestSeed(11);
  const std::string data = SomeText(3 << 20, seed);
  const std::string packed = Packed(data, kGzipBits);
  const Indexed whole = IndexOf(packed, FileCompression::kGzip);
  SequenceRng rng(seed);
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    std::string damaged = packed;
    const uint64_t at = rng.Below(damaged.size());
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << rng.Below(8)));
    const Indexed indexed = IndexOf(damaged, FileCompression::kGzip);
    EXPECT_TRUE(!indexed.status.ok() || indexed.unpacked == data) << at << " seed " << seed;
    const auto read = ReadAt(*Open(damaged, FileCompression::kGzip, whole.index), 0, data.size());
    EXPECT_TRUE(!read.ok() || *read == data) << at << " seed " << seed;
    refused += indexed.status.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 25);
}

TEST(Compression, IsNamedAsInTensorFlow) {
  EXPECT_EQ(*CompressionFromName(""), FileCompression::kNone);
  EXPECT_EQ(*CompressionFromName("GZIP"), FileCompression::kGzip);
  EXPECT_EQ(*CompressionFromName("auto"), FileCompression::kAuto);
  EXPECT_THAT(CompressionFromName("SNAPPY").status().message(), HasSubstr("pack them with gzip"));
  EXPECT_THAT(CompressionFromName("gz").status().message(), HasSubstr("use auto, none"));
}

TEST(Compression, IsTakenFromTheContent) {
  const auto detect = [](const std::string& bytes) {
    return *DetectCompression(MemoryFile(bytes));
  };
  EXPECT_EQ(detect(Packed("a", kGzipBits)), FileCompression::kGzip);
  for (const int level : {1, 6, 9})
    EXPECT_EQ(detect(Packed("a", kZlibBits, level)), FileCompression::kZlib);
  for (const char* plain : {"", "x", "text", "age,workclass"})
    EXPECT_EQ(detect(plain), FileCompression::kNone);
}

}  // namespace
}  // namespace cohort
