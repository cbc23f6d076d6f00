#include "common/formats/memory_file.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

std::shared_ptr<const Buffer> CopyOf(absl::string_view bytes) {
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return buffer;
}

}  // namespace

MemoryFile::MemoryFile(std::shared_ptr<const Buffer> bytes) : bytes_(std::move(bytes)) {}
MemoryFile::MemoryFile(absl::string_view bytes) : bytes_(CopyOf(bytes)) {}

uint64_t MemoryFile::size() const { return bytes_->size(); }

absl::Status MemoryFile::Read(uint64_t offset, absl::Span<char> out) const {
  if (offset > size() || out.size() > size() - offset) {
    return absl::OutOfRangeError(absl::StrCat(out.size(), " bytes at ", offset,
                                              " are beyond the end of ", size(), " bytes"));
  }
  if (!out.empty()) std::memcpy(out.data(), bytes_->data() + offset, out.size());
  return absl::OkStatus();
}

}  // namespace cohort
