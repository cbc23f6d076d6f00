// Rows in pieces are the rows that are read at once, and a damaged byte is found before the end.

#include "common/checkpoint/row_stream.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "common/base/posix_file_system.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/checkpoint/bundle_support.h"

namespace cohort {
namespace {

absl::StatusOr<std::string> ReadAll(RowStream& stream, size_t piece) {
  std::string all;
  while (stream.left() > 0) {
    std::string bytes(std::min<uint64_t>(piece, stream.left()), '\0');
    RETURN_IF_ERROR(stream.Read(absl::MakeSpan(bytes.data(), bytes.size())));
    all += bytes;
  }
  return all;
}

std::string BytesOfTensor(const Tensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes());
}

// Bundles that TensorFlow wrote, also in slices along every axis.
TEST(RowStreamTest, EveryRowRangeOfTensorFlowsBundlesInPiecesOfAnySize) {
  PosixFileSystem files;
  const std::string directory = COHORT_SOURCE_DIR "/tests/golden/checkpoint";
  int ranges = 0;
  const auto names = *files.List(directory);
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".index")) continue;
    const auto reader =
        BundleReader::Open(files, JoinPath(directory, name.substr(0, name.size() - 6)));
    if (!reader.ok()) continue;  // one of those that are damaged on purpose
    for (const auto& [tensor, info] : (*reader)->tensors()) {
      const int64_t rows = info.shape.rank() == 0 ? 1 : info.shape.dim(0);
      for (int64_t begin = 0; begin < std::min<int64_t>(rows, 8); ++begin) {
        for (const int64_t count : {int64_t{1}, (rows - begin + 1) / 2, rows - begin}) {
          const auto at_once = (*reader)->ReadRows(tensor, {begin, count});
          ASSERT_TRUE(at_once.ok()) << at_once.status();
          for (const size_t piece : {1, 7, 4096}) {
            if (at_once->num_bytes() > 4096 && piece == 1) continue;
            auto stream = (*reader)->StreamRows(tensor, {begin, count});
            ASSERT_TRUE(stream.ok()) << stream.status();
            EXPECT_EQ((*stream)->left(), at_once->num_bytes());
            const auto bytes = ReadAll(**stream, piece);
            ASSERT_TRUE(bytes.ok()) << bytes.status();
            ASSERT_EQ(*bytes, BytesOfTensor(*at_once)) << name << " " << tensor << " " << begin;
          }
          ++ranges;
        }
      }
    }
  }
  EXPECT_GT(ranges, 100);
}

TEST(RowStreamTest, AChangedByteOfASliceIsFoundThoughItsRowIsNotWanted) {
  MemoryFileSystem disk;
  ASSERT_TRUE(disk.MakeDirectories("/a").ok());
  ASSERT_TRUE(Save(disk, "/a/c", 1, Partitioned("w", Ramp({6, 2}), 2, 1)).ok());
  const std::string path = "/a/c.data-00000-of-00001";
  const std::string bytes = *ReadFile(disk, path);
  const size_t slice = bytes.size() / 2;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(disk, path, damaged).ok());
    const auto reader = *BundleReader::Open(disk, "/a/c");
    const auto first = ReadAll(**reader->StreamRows("w", {1, 1}), 3);
    const auto second = ReadAll(**reader->StreamRows("w", {4, 2}), 3);
    EXPECT_EQ(absl::IsDataLoss(first.status()), at < slice) << at << first.status();
    EXPECT_EQ(absl::IsDataLoss(second.status()), at >= slice) << at << second.status();
  }
}

TEST(RowStreamTest, RowsOutsideTheTensorAreRefused) {
  MemoryFileSystem disk;
  ASSERT_TRUE(disk.MakeDirectories("/a").ok());
  ASSERT_TRUE(Save(disk, "/a/c", 1, {Whole("w", 0, Ramp({6, 2}))}).ok());
  const auto reader = *BundleReader::Open(disk, "/a/c");
  EXPECT_TRUE(absl::IsInvalidArgument(reader->StreamRows("w", {5, 2}).status()));
  EXPECT_TRUE(absl::IsNotFound(reader->StreamRows("v", {0, 1}).status()));
}

}  // namespace
}  // namespace cohort
