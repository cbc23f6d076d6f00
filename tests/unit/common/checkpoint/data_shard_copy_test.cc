// What is written from streamed bytes is the file that DataShardWriter writes.

#include "common/checkpoint/data_shard_copy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/checkpoint/bundle_support.h"

namespace cohort {
namespace {

class DataShardCopyTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(disk_.MakeDirectories("/a").ok());
    ASSERT_TRUE(disk_.MakeDirectories("/b").ok());
    auto slices = SaveShards(disk_, "/a/c", 1,
                             {Whole("empty", 0, Ramp({0, 3})), Whole("w", 0, Ramp({5, 3})),
                              Whole("none", 0, Ramp({0})), Whole("s", 0, Ramp({}))});
    ASSERT_TRUE(slices.ok()) << slices.status();
    slices_ = *slices;
    bytes_ = *ReadFile(disk_, "/a/c.data-00000-of-00001");
    layout_ = *slices;
    for (proto::SavedSlice& slice : layout_) slice.clear_crc32c();
  }
  absl::StatusOr<std::unique_ptr<DataShardCopy>> Start() {
    return DataShardCopy::Create(disk_, {"/b/c", 0, 1}, layout_);
  }

  MemoryFileSystem disk_;
  std::vector<proto::SavedSlice> slices_;  // as the writer says
  std::vector<proto::SavedSlice> layout_;  // before its checksums are known
  std::string bytes_;
};

TEST_F(DataShardCopyTest, AnyChunksMakeTheSameFile) {
  for (size_t chunk = 1; chunk <= bytes_.size() + 1; ++chunk) {
    auto copy = Start();
    ASSERT_TRUE(copy.ok()) << copy.status();
    for (size_t at = 0; at < bytes_.size(); at += chunk) {
      ASSERT_TRUE((*copy)->Append(absl::string_view(bytes_).substr(at, chunk)).ok());
    }
    const auto saved = (*copy)->Finish();
    ASSERT_TRUE(saved.ok()) << saved.status();
    ASSERT_EQ(saved->size(), slices_.size());
    for (size_t i = 0; i < slices_.size(); ++i) {
      EXPECT_EQ((*saved)[i].SerializeAsString(), slices_[i].SerializeAsString());
    }
    EXPECT_EQ(*ReadFile(disk_, "/b/c.data-00000-of-00001"), bytes_);
  }
}

TEST_F(DataShardCopyTest, TooFewAndTooManyBytesAreRefused) {
  auto copy = Start();
  ASSERT_TRUE((*copy)->Append(bytes_.substr(1, 0)).ok());
  ASSERT_TRUE((*copy)->Append(bytes_.substr(0, bytes_.size() - 1)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument((*copy)->Append("12")));
  EXPECT_TRUE(absl::IsFailedPrecondition((*copy)->Finish().status()));
  EXPECT_FALSE(disk_.Open("/b/c.data-00000-of-00001").ok());
}

TEST_F(DataShardCopyTest, ALayoutWithAGapIsRefused) {
  layout_[1].set_offset(4);
  EXPECT_TRUE(absl::IsInvalidArgument(Start().status()));
  layout_[1].set_offset(0);
  layout_[1].set_size(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(Start().status()));
}

}  // namespace
}  // namespace cohort
