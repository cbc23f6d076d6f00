#include "common/records/index_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/crc32c.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"

namespace cohort {

namespace {

constexpr uint32_t kVersion = 1;
constexpr uint64_t kEdgeBytes = 64 << 10;
constexpr size_t kChecksumBytes = sizeof(uint32_t);

proto::RecordFormat FormatToProto(const RecordFormat& format) {
  proto::RecordFormat stored;
  stored.set_kind(static_cast<uint32_t>(format.kind));
  stored.set_bytes(format.bytes);
  stored.set_header_bytes(format.header_bytes);
  stored.set_footer_bytes(format.footer_bytes);
  stored.set_quotes(format.quotes);
  stored.set_comment(format.comment);
  stored.set_skip_blank(format.skip_blank);
  return stored;
}

// Compares two messages whose fields are all known.
bool AreEqual(const proto::RecordFormat& a, const proto::RecordFormat& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

absl::Status Damaged() { return absl::DataLossError("the index file is damaged"); }

absl::StatusOr<UnpackedIndex> RestorePoints(const proto::StoredPoints& stored,
                                            uint64_t packed_bytes) {
  UnpackedIndex index;
  index.size = stored.size();
  const int count = stored.unpacked_size();
  const bool fits = stored.packed_size() == count && stored.bits_size() == count &&
                    stored.starts_stream_size() == count && stored.windows_size() == count &&
                    stored.checksums_size() == count && (count > 0 || index.size == 0);
  if (!fits) return Damaged();
  for (int i = 0; i < count; ++i) {
    RestartPoint point;
    point.unpacked = stored.unpacked(i);
    point.packed = stored.packed(i);
    point.bits = static_cast<int>(stored.bits(i));
    point.starts_stream = stored.starts_stream(i);
    point.window = stored.windows(i);
    // Points ascend from 0 and lie in the file, so that a search finds one before every offset.
    const bool is_in_order =
        i == 0 ? point.unpacked == 0 : point.unpacked > index.points.back().unpacked;
    if (!is_in_order || point.unpacked > index.size || point.packed > packed_bytes ||
        stored.bits(i) > 7) {
      return Damaged();
    }
    index.points.push_back(std::move(point));
    index.checksums.push_back(stored.checksums(i));
  }
  return index;
}

absl::StatusOr<RecordIndex> RestoreRecords(const proto::StoredRecords& stored, uint64_t bytes) {
  RecordIndex index;
  index.records = stored.records();
  index.end = stored.end();
  index.longest = stored.longest();
  const int count = stored.record_steps_size();
  if (stored.offset_steps_size() != count || (count == 0) != (index.records == 0) ||
      index.end > bytes) {
    return Damaged();
  }
  RecordPlace place;
  for (int i = 0; i < count; ++i) {
    // The steps are compared with what is left, so that no sum overflows.
    const bool is_first = i == 0;
    if (stored.record_steps(i) > index.records - place.record ||
        stored.offset_steps(i) > index.end - place.offset ||
        is_first != (stored.record_steps(i) == 0)) {
      return Damaged();
    }
    place.record += stored.record_steps(i);
    place.offset += stored.offset_steps(i);
    if (place.record >= index.records) return Damaged();
    index.places.push_back(place);
  }
  return index;
}

uint32_t ChecksumAt(absl::string_view bytes) {
  uint32_t checksum = 0;
  std::copy_n(bytes.data(), sizeof(checksum), reinterpret_cast<char*>(&checksum));
  return checksum;
}

}  // namespace

absl::StatusOr<proto::FileFingerprint> FingerprintOf(const ReadableFile& file) {
  const uint64_t edge = std::min(file.size(), kEdgeBytes);
  std::string bytes(edge, '\0');
  proto::FileFingerprint fingerprint;
  fingerprint.set_bytes(file.size());
  fingerprint.set_modified_ns(file.modified_ns());
  RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(bytes)));
  fingerprint.set_head_crc32c(Crc32c(bytes));
  RETURN_IF_ERROR(file.Read(file.size() - edge, absl::MakeSpan(bytes)));
  fingerprint.set_tail_crc32c(Crc32c(bytes));
  return fingerprint;
}

bool IsSameFile(const proto::FileFingerprint& a, const proto::FileFingerprint& b) {
  return a.bytes() == b.bytes() && a.modified_ns() == b.modified_ns() &&
         a.head_crc32c() == b.head_crc32c() && a.tail_crc32c() == b.tail_crc32c();
}

std::string StoreIndex(const FileIndex& index, const RecordFormat& format,
                       const proto::FileFingerprint& file) {
  proto::StoredIndex stored;
  stored.set_version(kVersion);
  *stored.mutable_file() = file;
  *stored.mutable_format() = FormatToProto(format);
  stored.set_compression(static_cast<uint32_t>(index.compression));
  proto::StoredPoints& points = *stored.mutable_points();
  points.set_size(index.unpacked.size);
  for (const RestartPoint& point : index.unpacked.points) {
    points.add_unpacked(point.unpacked);
    points.add_packed(point.packed);
    points.add_bits(static_cast<uint32_t>(point.bits));
    points.add_starts_stream(point.starts_stream);
    points.add_windows(point.window);
  }
  for (const uint32_t checksum : index.unpacked.checksums) points.add_checksums(checksum);
  proto::StoredRecords& records = *stored.mutable_records();
  records.set_records(index.records.records);
  records.set_end(index.records.end);
  records.set_longest(index.records.longest);
  RecordPlace before;
  for (const RecordPlace& place : index.records.places) {
    records.add_record_steps(place.record - before.record);
    records.add_offset_steps(place.offset - before.offset);
    before = place;
  }
  std::string bytes = stored.SerializeAsString();
  const uint32_t checksum = Crc32c(bytes);
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  return bytes;
}

absl::StatusOr<FileIndex> RestoreIndex(absl::string_view bytes, const RecordFormat& format,
                                       const proto::FileFingerprint& file) {
  if (bytes.size() < kChecksumBytes) return Damaged();
  const absl::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  if (ChecksumAt(bytes.substr(body.size())) != Crc32c(body)) return Damaged();
  proto::StoredIndex stored;
  if (!stored.ParseFromArray(body.data(), static_cast<int>(body.size()))) return Damaged();
  if (stored.version() != kVersion || !IsSameFile(stored.file(), file) ||
      !AreEqual(stored.format(), FormatToProto(format))) {
    return absl::NotFoundError("the index file is that of another file, or of another format");
  }
  FileIndex index;
  index.compression = static_cast<FileCompression>(stored.compression());
  const bool is_packed =
      index.compression == FileCompression::kGzip || index.compression == FileCompression::kZlib;
  if (!is_packed && index.compression != FileCompression::kNone) return Damaged();
  if (is_packed) {
    ASSIGN_OR_RETURN(index.unpacked, RestorePoints(stored.points(), file.bytes()));
  }
  ASSIGN_OR_RETURN(index.records, RestoreRecords(stored.records(),
                                                 is_packed ? index.unpacked.size : file.bytes()));
  return index;
}

std::string IndexStore::CachePath(const std::string& path) const {
  return JoinPath(cache_directory_, absl::StrFormat("%016x%016x%s", StableHash(path),
                                                    Mix64(StableHash(path + "/")), kIndexEnding));
}

absl::StatusOr<FileIndex> IndexStore::Get(const ReadableFile& file, const std::string& path,
                                          const RecordFormat& format, FileCompression compression) {
  ASSIGN_OR_RETURN(const proto::FileFingerprint fingerprint, FingerprintOf(file));
  std::vector<std::string> places = {absl::StrCat(path, kIndexEnding)};
  if (!cache_directory_.empty()) places.push_back(CachePath(path));
  for (const std::string& place : places) {
    const absl::StatusOr<std::string> bytes = ReadFile(files_, place);
    if (!bytes.ok()) continue;
    absl::StatusOr<FileIndex> stored = RestoreIndex(*bytes, format, fingerprint);
    const bool fits = stored.ok() && (compression == FileCompression::kAuto ||
                                      compression == stored->compression || file.size() == 0);
    if (fits) return stored;
  }
  ASSIGN_OR_RETURN(FileIndex index, IndexFile(file, path, format, compression));
  const std::string bytes = StoreIndex(index, format, fingerprint);
  absl::Status kept;
  for (const std::string& place : places) {
    kept = WriteFileAtomically(files_, place, bytes);
    if (kept.ok()) break;
  }
  if (!kept.ok()) {
    Log(LogLevel::kInfo, "record_index_not_kept", {{"file", path}, {"cause", kept.message()}});
  }
  return index;
}

}  // namespace cohort
