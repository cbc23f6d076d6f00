#include "common/checkpoint/row_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {
// The number of bytes that are read at a time where bytes are needed only for a slice's checksum.
constexpr int64_t kSkipBytes = 1 << 20;
}  // namespace

RowStream::RowStream(DType dtype, std::vector<Part> parts)
    : dtype_(dtype), parts_(std::move(parts)) {
  for (const Part& part : parts_) left_ += static_cast<uint64_t>(part.end - part.begin);
}

RowStream::RowStream(Tensor value)
    : dtype_(value.dtype()), value_(std::move(value)), left_(value_.num_bytes()) {}

absl::Status RowStream::Read(absl::Span<char> out) {
  COHORT_CHECK(out.size() <= left_, "at most as many bytes are read as are left");
  if (out.empty()) return absl::OkStatus();
  if (parts_.empty()) {
    std::memcpy(out.data(), value_.raw() + (value_.num_bytes() - left_), out.size());
    left_ -= out.size();
    return absl::OkStatus();
  }
  while (!out.empty()) {
    const Part& part = parts_[part_];
    // The bytes before part.begin are not wanted; ReadPart reads them only for the slice's
    // checksum.
    const int64_t from = std::max(position_, part.begin);
    const size_t count = std::min(out.size(), static_cast<size_t>(part.end - from));
    RETURN_IF_ERROR(ReadPart(part, out.first(count)));
    out.remove_prefix(count);
    left_ -= count;
  }
  return absl::OkStatus();
}

absl::Status RowStream::SkipTo(const Part& part, int64_t end) {
  std::vector<char> piece(
      static_cast<size_t>(std::min(std::max<int64_t>(end - position_, 0), kSkipBytes)));
  while (position_ < end) {
    const absl::Span<char> bytes(piece.data(),
                                 static_cast<size_t>(std::min(end - position_, kSkipBytes)));
    const absl::Status status =
        part.file->Read(static_cast<uint64_t>(part.offset + position_), bytes);
    if (absl::IsOutOfRange(status)) return DamagedFile(part.path, status.message());
    RETURN_IF_ERROR(status);
    crc_ = ExtendCrc32c(crc_, absl::string_view(bytes.data(), bytes.size()));
    position_ += static_cast<int64_t>(bytes.size());
  }
  return absl::OkStatus();
}

absl::Status RowStream::ReadPart(const Part& part, absl::Span<char> out) {
  // The checksum covers the whole slice, so the bytes before the wanted rows must be read as well.
  RETURN_IF_ERROR(SkipTo(part, part.begin));
  const absl::Status status = part.file->Read(static_cast<uint64_t>(part.offset + position_), out);
  if (absl::IsOutOfRange(status)) return DamagedFile(part.path, status.message());
  RETURN_IF_ERROR(status);
  crc_ = ExtendCrc32c(crc_, absl::string_view(out.data(), out.size()));
  position_ += static_cast<int64_t>(out.size());
  // In C++, reading a bool whose byte is neither 0 nor 1 is undefined behavior, so other bytes are
  // refused.
  if (dtype_ == DType::kBool &&
      std::any_of(out.begin(), out.end(), [](char byte) { return byte != 0 && byte != 1; })) {
    return DamagedFile(part.path, "a bool holds other bytes");
  }
  // A slice's checksum can be compared only when the whole slice has been read. So the bytes after
  // the last wanted byte are read together with this byte.
  if (position_ < part.end) return absl::OkStatus();
  RETURN_IF_ERROR(SkipTo(part, part.size));
  if (crc_ != part.crc32c) {
    return DamagedFile(part.path,
                       absl::StrCat("wrong checksum of ", part.size, " bytes at ", part.offset));
  }
  ++part_;
  position_ = 0;
  crc_ = 0;
  return absl::OkStatus();
}

}  // namespace cohort
