#include "ps_server/slice/value_buffer.h"

#include <gtest/gtest.h>

#include <set>

namespace cohort {
namespace {

void Write(ValueBuffer& buffer, float value) {
  buffer.Next().mutable_data<float>()[0] = value;
  buffer.Commit();
}
float Current(const ValueBuffer& buffer) { return buffer.current().data<float>()[0]; }

class ValueBufferTest : public testing::Test {
 protected:
  ValueBuffer buffer_{Tensor::FromVector<float>({1}, Shape{1}), *HostMemory()};
};

TEST_F(ValueBufferTest, WritesInPlaceWithoutReaders) {
  const std::byte* const before = buffer_.current().raw();
  Write(buffer_, 2);
  EXPECT_EQ(buffer_.current().raw(), before);
  EXPECT_EQ(Current(buffer_), 2);
}

TEST_F(ValueBufferTest, AReaderKeepsItsValueAndTheWriterGoesElsewhere) {
  const Tensor read = buffer_.current();
  std::shared_ptr<const void> lease = buffer_.Lease();
  Write(buffer_, 2);
  EXPECT_EQ(read.data<float>()[0], 1);
  EXPECT_EQ(Current(buffer_), 2);
  lease.reset();
  Write(buffer_, 3);
  EXPECT_EQ(Current(buffer_), 3);
}

TEST_F(ValueBufferTest, ASteadyStateOfPullsAndPushesUsesTheSameFewBlocks) {
  std::set<const std::byte*> blocks;
  std::shared_ptr<const void> lease;
  for (int i = 0; i < 100; ++i) {
    std::shared_ptr<const void> next = buffer_.Lease();
    Write(buffer_, static_cast<float>(i));
    lease = std::move(next);
    blocks.insert(buffer_.current().raw());
  }
  EXPECT_LE(blocks.size(), 3u);
  EXPECT_LE(buffer_.resident_bytes(), 3 * sizeof(float));
}

TEST_F(ValueBufferTest, ManyReadersOfManyVersionsStayIntactAndSparesStayBounded) {
  std::vector<std::pair<Tensor, std::shared_ptr<const void>>> readers;
  for (int i = 0; i < 50; ++i) {
    Write(buffer_, static_cast<float>(i));
    readers.emplace_back(buffer_.current(), buffer_.Lease());
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(readers[static_cast<size_t>(i)].first.data<float>()[0], static_cast<float>(i));
  }
  EXPECT_EQ(buffer_.resident_bytes(), (1 + kSpareBlocksMax) * sizeof(float));
}

TEST(ValueBuffer, ALeaseOutlivesTheSlice) {
  auto buffer =
      std::make_unique<ValueBuffer>(Tensor::FromVector<float>({7}, Shape{1}), *HostMemory());
  const std::byte* const raw = buffer->current().raw();
  const std::shared_ptr<const void> lease = buffer->Lease();
  buffer.reset();
  EXPECT_EQ(*reinterpret_cast<const float*>(raw), 7);
}

}  // namespace
}  // namespace cohort
