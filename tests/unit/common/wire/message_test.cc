#include "common/wire/message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace cohort {
namespace {

using google::protobuf::RepeatedPtrField;

proto::TensorMeta Meta(int32_t dtype, std::vector<int64_t> dims) {
  proto::TensorMeta meta;
  meta.set_dtype(dtype);
  for (const int64_t dim : dims) meta.add_dims(dim);
  return meta;
}

// The bytes of `tensor` cut into slices of `size`, each in memory of its own.
Payload Cut(const Tensor& tensor, size_t size) {
  Payload payload;
  for (size_t begin = 0; begin < tensor.num_bytes(); begin += size) {
    auto piece = std::make_shared<std::string>(reinterpret_cast<const char*>(tensor.raw()) + begin,
                                               std::min(size, tensor.num_bytes() - begin));
    payload.push_back({piece, reinterpret_cast<const std::byte*>(piece->data()), piece->size()});
    payload.push_back({});  // an empty slice changes nothing
  }
  return payload;
}

TEST(Message, SliceOfSharesTheTensorsMemory) {
  const Tensor tensor = Tensor::FromVector<float>({1, 2, 3, 4}, Shape{4});
  const ByteSlice slice = SliceOf(tensor.Rows(1, 2));
  EXPECT_EQ(slice.data, tensor.raw() + 4);
  EXPECT_EQ(slice.size, 8u);
  EXPECT_EQ(tensor.buffer().use_count(), 2);
}

TEST(Message, ReadsTensorsAcrossSliceBorders) {
  const Tensor a = Tensor::FromVector<float>({1, 2, 3, 4, 5}, Shape{5});
  const Tensor b = Tensor::FromVector<int64_t>({-1, 7}, Shape{2, 1});
  for (size_t size = 1; size <= 21; ++size) {
    Payload payload = Cut(a, size);
    for (const ByteSlice& slice : Cut(b, size)) payload.push_back(slice);
    RepeatedPtrField<proto::TensorMeta> metas;
    *metas.Add() = MetaOf(a);
    *metas.Add() = MetaOf(b);
    const auto tensors = ReadTensors(metas, payload);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_EQ((*tensors)[0].span<float>(), a.span<float>()) << "slices of " << size;
    EXPECT_EQ((*tensors)[1].span<int64_t>(), b.span<int64_t>()) << "slices of " << size;
    EXPECT_EQ((*tensors)[1].shape(), b.shape());
  }
}

TEST(Message, PayloadAndMetasMustAgreeInSize) {
  const Tensor tensor = Tensor::FromVector<float>({1, 2, 3}, Shape{3});
  RepeatedPtrField<proto::TensorMeta> metas;
  *metas.Add() = Meta(1, {4});
  EXPECT_EQ(ReadTensors(metas, {SliceOf(tensor)}).status().code(),
            absl::StatusCode::kInvalidArgument);
  *metas.Mutable(0) = Meta(1, {2});
  EXPECT_EQ(ReadTensors(metas, {SliceOf(tensor)}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Message, RefusesImpossibleMetas) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  for (const proto::TensorMeta& meta :
       {Meta(0, {1}), Meta(99, {1}), Meta(1, {-1}), Meta(1, {huge}), Meta(1, {huge, huge}),
        Meta(2, {huge, 2}), Meta(1, {0, -3}), Meta(11, {int64_t{1} << 40, int64_t{1} << 21})}) {
    EXPECT_EQ(BytesOf(meta).status().code(), absl::StatusCode::kInvalidArgument)
        << meta.ShortDebugString();
  }
  EXPECT_EQ(AllocateFor(Meta(1, {int64_t{1} << 40})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Message, AHugeClaimWithoutBytesAllocatesNothing) {
  Payload empty;
  PayloadReader reader(empty);
  EXPECT_EQ(reader.ReadTensor(Meta(1, {int64_t{1} << 28})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Message, AnEmptyTensorHasNoBytes) {
  const auto bytes = BytesOf(Meta(1, {0, 1000}));
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, 0u);
}

}  // namespace
}  // namespace cohort
