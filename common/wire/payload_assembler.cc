#include "common/wire/payload_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace cohort {

absl::Status PayloadAssembler::Begin(size_t bytes) {
  if (under_way()) {
    return absl::InvalidArgumentError("a payload in parts begins before another one has ended");
  }
  if (bytes == 0) return absl::InvalidArgumentError("a payload in parts has no bytes");
  if (bytes > bytes_max_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a payload of ", bytes, " bytes; at most ", bytes_max_));
  }
  buffer_ = pool_->Take(bytes);
  bytes_ = bytes;
  filled_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<std::byte>> PayloadAssembler::Next(size_t bytes) {
  const size_t left = under_way() ? bytes_ - filled_ : 0;
  if (bytes == 0 || bytes > left) {
    return absl::InvalidArgumentError(
        absl::StrCat("a part of ", bytes, " bytes where ", left, " are left of its payload"));
  }
  // The part counts as filled before its bytes are there, because the caller fills the returned
  // memory at once.
  const auto place = absl::MakeSpan(buffer_->data() + filled_, bytes);
  filled_ += bytes;
  return place;
}

absl::Status PayloadAssembler::Add(absl::Span<const std::byte> part) {
  ASSIGN_OR_RETURN(const absl::Span<std::byte> place, Next(part.size()));
  std::memcpy(place.data(), part.data(), part.size());
  return absl::OkStatus();
}

ByteSlice PayloadAssembler::Take() {
  COHORT_CHECK(complete(), "a payload is complete before it is taken");
  // The slice also has its memory as a Buffer, so that a tensor may keep the Buffer without a copy.
  std::shared_ptr<Buffer> buffer = std::exchange(buffer_, nullptr);
  const std::byte* const data = buffer->data();
  return ByteSlice{buffer, data, bytes_, std::move(buffer)};
}

Payload PartOf(const Payload& payload, size_t begin, size_t count) {
  Payload part;
  for (const ByteSlice& slice : payload) {
    if (count == 0) break;
    if (begin >= slice.size) {
      begin -= slice.size;
      continue;
    }
    const size_t step = std::min(slice.size - begin, count);
    part.push_back({slice.owner, slice.data + begin, step});
    begin = 0;
    count -= step;
  }
  return part;
}

Payload CopyOf(const Payload& payload) {
  const size_t bytes = PayloadBytes(payload);
  if (bytes == 0) return {};
  const std::shared_ptr<Buffer> copy = Buffer::Allocate(bytes);
  size_t copied = 0;
  for (const ByteSlice& slice : payload) {
    if (slice.size > 0) std::memcpy(copy->data() + copied, slice.data, slice.size);
    copied += slice.size;
  }
  return {{copy, copy->data(), bytes}};
}

}  // namespace cohort
