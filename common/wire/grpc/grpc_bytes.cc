#include "common/wire/grpc/grpc_bytes.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// The largest slice whose bytes are copied. For so few bytes, copying is cheaper than counting
// references to the memory.
constexpr size_t kCopiedSliceBytesMax = 512;

// The limit of a status text. gRPC drops a status whose metadata is too large, and encoding the
// text as metadata turns some bytes into three bytes each.
constexpr size_t kStatusTextBytesMax = 8192;

grpc::Slice ToGrpcSlice(const ByteSlice& slice) {
  if (slice.size <= kCopiedSliceBytesMax) return grpc::Slice(slice.data, slice.size);
  // gRPC releases a slice by calling a plain function with a pointer, so the pointer to the slice's
  // owner lies on the heap.
  using Owner = std::shared_ptr<const void>;
  return grpc::Slice(
      const_cast<std::byte*>(slice.data), slice.size,
      [](void* owner) { delete static_cast<Owner*>(owner); }, new Owner(slice.owner));
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(const Payload& frame) {
  if (frame.size() == 1) {
    const grpc::Slice slice = ToGrpcSlice(frame[0]);
    return grpc::ByteBuffer(&slice, 1);
  }
  std::vector<grpc::Slice> slices;
  slices.reserve(frame.size());
  for (const ByteSlice& slice : frame) slices.push_back(ToGrpcSlice(slice));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

Payload FromByteBuffer(const grpc::ByteBuffer& buffer) {
  // A short gRPC slice stores its bytes inside itself, so the vector of slices must not move once
  // the payload points into its slices.
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!buffer.Dump(slices.get()).ok()) return {};
  Payload payload;
  payload.reserve(slices->size());
  for (const grpc::Slice& slice : *slices) {
    payload.push_back({slices, reinterpret_cast<const std::byte*>(slice.begin()), slice.size()});
  }
  return payload;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  std::string text(status.message().substr(0, kStatusTextBytesMax));
  if (text.size() < status.message().size()) absl::StrAppend(&text, " (cut)");
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), text,
                      DetailOf(status).SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  proto::ErrorDetail detail;
  if (status.error_details().empty() || !detail.ParseFromString(status.error_details())) {
    return result;
  }
  return WithDetail(result, detail);
}

}  // namespace cohort
