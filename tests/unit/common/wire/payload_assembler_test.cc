#include "common/wire/payload_assembler.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

absl::Span<const std::byte> Span(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

TEST(PayloadAssembler, PartsBecomeOneSliceInTheirOrder) {
  PayloadAssembler parts(100, std::make_shared<ReceivePool>());
  EXPECT_FALSE(parts.under_way());
  ASSERT_TRUE(parts.Begin(6).ok());
  EXPECT_TRUE(parts.under_way());
  ASSERT_TRUE(parts.Add(Span("ab")).ok());
  EXPECT_FALSE(parts.complete());
  ASSERT_TRUE(parts.Add(Span("cdef")).ok());
  EXPECT_TRUE(parts.complete());
  const ByteSlice slice = parts.Take();
  EXPECT_EQ(Flatten({slice}), "abcdef");
  EXPECT_EQ(slice.buffer->data(), slice.data);
  EXPECT_FALSE(parts.under_way());
  EXPECT_TRUE(parts.Begin(1).ok());
}

TEST(PayloadAssembler, WhatASenderSaysIsChecked) {
  PayloadAssembler parts(100, std::make_shared<ReceivePool>());
  EXPECT_EQ(parts.Begin(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(parts.Begin(101).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(parts.Add(Span("a")).code(), absl::StatusCode::kInvalidArgument) << "of nothing";
  ASSERT_TRUE(parts.Begin(3).ok());
  EXPECT_EQ(parts.Begin(3).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(parts.Add(Span("")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(parts.Add(Span("abcd")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(parts.Add(Span("abc")).ok());
  EXPECT_EQ(parts.Add(Span("d")).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReceivePool, MemoryThatIsFreeAgainServesWhatIsAboutAsLarge) {
  const auto pool = std::make_shared<ReceivePool>();
  std::shared_ptr<Buffer> first = pool->Take(1000);
  std::shared_ptr<Buffer> second = pool->Take(1000);
  const std::byte* const data = first->data();
  EXPECT_NE(second->data(), data);
  Tensor kept(DType::kUint8, Shape{10}, first, 0);
  first.reset();
  EXPECT_NE(pool->Take(1000)->data(), data) << "a tensor has it";
  kept = Tensor();
  EXPECT_NE(pool->Take(400)->data(), data) << "half of it would lie idle";
  EXPECT_EQ(pool->Take(900)->data(), data);
}

TEST(ReceivePool, FreeMemoryIsBounded) {
  const auto pool = std::make_shared<ReceivePool>();
  const size_t third = ReceivePool::kFreeBytesMax / 3 + 1;
  std::vector<std::shared_ptr<Buffer>> out;
  for (int i = 0; i < 3; ++i) out.push_back(pool->Take(third));
  const std::byte* const oldest = out[0]->data();
  out.clear();  // in ascending order
  for (int i = 0; i < 2; ++i) out.push_back(pool->Take(third));
  EXPECT_NE(out[0]->data(), oldest);
  EXPECT_NE(out[1]->data(), oldest);
}

TEST(PayloadAssembler, PartOfRefersToTheBytesAcrossSlices) {
  const Payload payload = {Bytes(10, 1), Bytes(0, 2), Bytes(20, 3), Bytes(5, 4)};
  const std::string all = Flatten(payload);
  for (size_t begin = 0; begin <= all.size(); ++begin) {
    for (size_t count = 0; begin + count <= all.size(); ++count) {
      ASSERT_EQ(Flatten(PartOf(payload, begin, count)), all.substr(begin, count));
    }
  }
  EXPECT_EQ(PartOf(payload, 3, 4).at(0).data, payload[0].data + 3);
}

proto::TensorMeta Floats(int64_t count) {
  proto::TensorMeta meta;
  meta.set_dtype(static_cast<int32_t>(DType::kFloat32));
  meta.add_dims(count);
  return meta;
}

TEST(PayloadReader, ATensorThatIsMostOfWhatCameInPartsKeepsItsMemory) {
  PayloadAssembler parts(1000, std::make_shared<ReceivePool>());
  ASSERT_TRUE(parts.Begin(120).ok());
  ASSERT_TRUE(parts.Add(Span(std::string(120, 'x'))).ok());
  const Payload payload = {parts.Take()};
  PayloadReader reader(payload);
  const auto few = reader.ReadTensor(Floats(5));
  const auto most = reader.ReadTensor(Floats(25));
  ASSERT_TRUE(few.ok() && most.ok());
  EXPECT_NE(few->raw(), payload[0].data) << "few bytes do not keep all";
  EXPECT_EQ(most->raw(), payload[0].data + 20);
  EXPECT_EQ(most->shape(), Shape{25});
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(CopyOfPayload, HasTheBytesInMemoryOfItsOwn) {
  const Payload payload = {Bytes(10, 1), Bytes(0, 2), Bytes(20, 3)};
  const Payload copy = CopyOf(payload);
  EXPECT_EQ(Flatten(copy), Flatten(payload));
  ASSERT_EQ(copy.size(), 1u);
  EXPECT_NE(copy[0].owner, payload[0].owner);
  EXPECT_TRUE(CopyOf({}).empty());
  EXPECT_TRUE(CopyOf({Bytes(0, 1)}).empty());
}

TEST(PayloadReader, ATensorOfOtherMemoryOrOutOfLineIsCopied) {
  const Payload whole = {Bytes(120, 1)};
  PayloadReader of_whole(whole);
  const auto copied = of_whole.ReadTensor(Floats(30));
  ASSERT_TRUE(copied.ok());
  EXPECT_NE(copied->raw(), whole[0].data);
  PayloadAssembler parts(1000, std::make_shared<ReceivePool>());
  ASSERT_TRUE(parts.Begin(121).ok());
  ASSERT_TRUE(parts.Add(Span(std::string(121, 'x'))).ok());
  const Payload payload = {parts.Take()};
  PayloadReader reader(payload);
  std::byte first;
  ASSERT_TRUE(reader.Read(absl::MakeSpan(&first, 1)).ok());
  const auto unaligned = reader.ReadTensor(Floats(30));
  ASSERT_TRUE(unaligned.ok());
  EXPECT_NE(unaligned->raw(), payload[0].data + 1);
}

}  // namespace
}  // namespace cohort
