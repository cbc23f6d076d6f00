#include "common/formats/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// Sizes, offsets and counts from these values on stand in ZIP64 fields.
constexpr uint64_t kMax32 = 0xffffffffu;
constexpr uint64_t kMax16 = 0xffffu;
constexpr uint64_t kVersion = 45;       // ZIP64
constexpr uint64_t kUtf8 = 1 << 11;     // flag: the name is UTF-8
constexpr uint64_t kDate = 1 << 5 | 1;  // 1980-01-01, the first day that the format knows
constexpr uint64_t kZip64Extra = 1;

// Appends the low `bytes` bytes of `value`, lowest first.
void Put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Appends the fields that a local header and a directory entry share: from the flags to the length
// of the name.
void PutCommon(std::string& out, uint32_t crc, uint64_t size, size_t name, size_t extra) {
  Put(out, kUtf8, 2);
  Put(out, 0, 2);  // method: stored
  Put(out, 0, 2);  // time
  Put(out, kDate, 2);
  Put(out, crc, 4);
  Put(out, std::min(size, kMax32), 4);
  Put(out, std::min(size, kMax32), 4);
  Put(out, name, 2);
  Put(out, extra, 2);
}

}  // namespace

ZipWriter::ZipWriter(std::unique_ptr<TemporaryFile> file) : file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<ZipWriter>> ZipWriter::Create(FileSystem& files,
                                                             const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  return std::unique_ptr<ZipWriter>(new ZipWriter(std::move(file)));
}

absl::Status ZipWriter::Append(absl::string_view bytes) {
  offset_ += bytes.size();
  return file_->Append(bytes);
}

absl::Status ZipWriter::Add(const std::string& name, absl::Span<const absl::string_view> pieces) {
  const bool taken = !names_.insert(name).second;
  if (name.empty() || name.size() > kMax16 || taken) {
    file_->Discard();
    return absl::InvalidArgumentError(
        absl::StrCat("member '", Excerpt(name), "' of an archive: the name is ",
                     taken ? "given twice" : "empty or above 65535 bytes"));
  }
  Member member{name, 0, offset_, 0};
  uLong crc = crc32_z(0, nullptr, 0);
  for (const absl::string_view piece : pieces) {
    member.size += piece.size();
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  }
  member.crc = static_cast<uint32_t>(crc);
  RETURN_IF_ERROR(Append(LocalHeader(member)));
  for (const absl::string_view piece : pieces) RETURN_IF_ERROR(Append(piece));
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

std::string ZipWriter::LocalHeader(const Member& member) {
  std::string extra;
  if (member.size >= kMax32) {
    Put(extra, kZip64Extra, 2);
    Put(extra, 16, 2);
    Put(extra, member.size, 8);
    Put(extra, member.size, 8);
  }
  std::string out("PK\x03\x04", 4);
  Put(out, kVersion, 2);
  PutCommon(out, member.crc, member.size, member.name.size(), extra.size());
  return absl::StrCat(out, member.name, extra);
}

std::string ZipWriter::DirectoryEntry(const Member& member) {
  std::string wide;
  if (member.size >= kMax32) {
    Put(wide, member.size, 8);
    Put(wide, member.size, 8);
  }
  if (member.offset >= kMax32) Put(wide, member.offset, 8);
  std::string extra;
  if (!wide.empty()) {
    Put(extra, kZip64Extra, 2);
    Put(extra, wide.size(), 2);
    extra += wide;
  }
  std::string out("PK\x01\x02", 4);
  Put(out, kVersion, 2);
  Put(out, kVersion, 2);
  PutCommon(out, member.crc, member.size, member.name.size(), extra.size());
  Put(out, 0, 2);  // length of the comment
  Put(out, 0, 2);  // disk
  Put(out, 0, 2);  // internal attributes
  Put(out, 0, 4);  // external attributes
  Put(out, std::min(member.offset, kMax32), 4);
  return absl::StrCat(out, member.name, extra);
}

std::string ZipWriter::EndOfArchive(uint64_t size) const {
  const uint64_t begin = offset_ - size;
  const uint64_t count = members_.size();
  std::string out;
  if (count >= kMax16 || size >= kMax32 || begin >= kMax32) {
    out.append("PK\x06\x06", 4);
    Put(out, 44, 8);  // bytes that follow in this record
    Put(out, kVersion, 2);
    Put(out, kVersion, 2);
    Put(out, 0, 4);
    Put(out, 0, 4);
    Put(out, count, 8);
    Put(out, count, 8);
    Put(out, size, 8);
    Put(out, begin, 8);
    out.append("PK\x06\x07", 4);
    Put(out, 0, 4);
    Put(out, offset_, 8);  // offset of the record above
    Put(out, 1, 4);
  }
  out.append("PK\x05\x06", 4);
  Put(out, 0, 4);
  Put(out, std::min(count, kMax16), 2);
  Put(out, std::min(count, kMax16), 2);
  Put(out, std::min(size, kMax32), 4);
  Put(out, std::min(begin, kMax32), 4);
  Put(out, 0, 2);
  return out;
}

absl::Status ZipWriter::Finish() {
  const uint64_t begin = offset_;
  for (const Member& member : members_) RETURN_IF_ERROR(Append(DirectoryEntry(member)));
  RETURN_IF_ERROR(Append(EndOfArchive(offset_ - begin)));
  RETURN_IF_ERROR(file_->Seal());
  return file_->Commit();
}

void ZipWriter::Discard() { file_->Discard(); }

}  // namespace cohort
