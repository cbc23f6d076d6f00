#include "common/records/record_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/records/tfrecord.h"

namespace cohort {

namespace {

constexpr size_t kPieceBytes = 1 << 20;
// Upper bound on the bytes that one read of several places takes.
constexpr uint64_t kReadBytesMax = 8 << 20;

}  // namespace

absl::StatusOr<FileCompression> CompressionOf(const ReadableFile& file, const RecordFormat& format,
                                              FileCompression asked) {
  ASSIGN_OR_RETURN(FileCompression found, DetectCompression(file));
  if (found != FileCompression::kNone && format.kind == RecordFormat::Kind::kTfRecord) {
    // The length of a plain record may look like the beginning of a packed file; its checksum
    // tells.
    std::array<char, kTfRecordHeaderBytes> header{};
    if (file.size() >= header.size()) {
      RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(header)));
      if (LooksLikeTfRecord({header.data(), header.size()})) found = FileCompression::kNone;
    }
  }
  if (asked == FileCompression::kAuto || asked == found || file.size() == 0) return found;
  return absl::FailedPreconditionError(
      absl::StrCat("its compression is set to ", CompressionName(asked), ", and its content is ",
                   found == FileCompression::kNone ? "not compressed" : CompressionName(found)));
}

absl::StatusOr<FileIndex> IndexFile(const ReadableFile& file, const std::string& path,
                                    const RecordFormat& format, FileCompression compression) {
  FileIndex index;
  const absl::StatusOr<FileCompression> found = CompressionOf(file, format, compression);
  if (!found.ok()) return Annotate(found.status(), path);
  index.compression = *found;
  RecordIndexer records(format);
  const auto add = [&](absl::string_view bytes) { return Annotate(records.Add(bytes), path); };
  if (*found == FileCompression::kNone) {
    std::vector<char> piece(std::min<uint64_t>(kPieceBytes, file.size()));
    for (uint64_t offset = 0; offset < file.size(); offset += piece.size()) {
      piece.resize(std::min<uint64_t>(piece.size(), file.size() - offset));
      RETURN_IF_ERROR(file.Read(offset, absl::MakeSpan(piece)));
      RETURN_IF_ERROR(add({piece.data(), piece.size()}));
    }
  } else {
    ASSIGN_OR_RETURN(index.unpacked, IndexUnpacked(file, path, *found, add));
  }
  absl::StatusOr<RecordIndex> finished = records.Finish();
  if (!finished.ok()) return Annotate(finished.status(), path);
  index.records = *std::move(finished);
  return index;
}

RecordFile::RecordFile(std::unique_ptr<ReadableFile> file, std::string path,
                       const RecordFormat& format, FileIndex index,
                       std::shared_ptr<SpanCache> cache)
    : path_(std::move(path)),
      format_(format),
      index_(std::move(index.records)),
      data_(index.compression == FileCompression::kNone
                ? std::move(file)
                : OpenUnpacked(std::move(file), path_, index.compression, std::move(index.unpacked),
                               std::move(cache))) {}

uint64_t RecordFile::OffsetNear(uint64_t record) const {
  return record < index_.records ? index_.places[index_.PlaceBefore(record)].offset : index_.end;
}

absl::Status RecordFile::Read(absl::Span<const uint64_t> numbers, RecordBatch& batch) const {
  const size_t begin = batch.records.size();
  std::vector<Wanted> wanted(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= records()) {
      return absl::OutOfRangeError(absl::StrCat(path_, " has ", records(), " records, and record ",
                                                numbers[i], " is asked for"));
    }
    wanted[i] = {numbers[i], begin + i};
  }
  const auto is_before = [](const Wanted& a, const Wanted& b) { return a.number < b.number; };
  if (!std::is_sorted(wanted.begin(), wanted.end(), is_before)) {
    std::sort(wanted.begin(), wanted.end(), is_before);
  }
  batch.records.resize(begin + numbers.size());
  absl::Status status;
  for (size_t i = 0; i < wanted.size() && status.ok();) {
    const size_t first = index_.PlaceBefore(wanted[i].number);
    size_t last = first;
    size_t end = i + 1;
    // Records of one place, and of places that follow each other, are read together, up to a bound.
    for (; end < wanted.size(); ++end) {
      const size_t place = index_.PlaceBefore(wanted[end].number);
      const uint64_t bytes = index_.After(place).offset - index_.places[first].offset;
      if (place > last + 1 || (place > last && bytes > kReadBytesMax)) break;
      last = place;
    }
    status = ReadPlaces(first, last, absl::MakeConstSpan(wanted).subspan(i, end - i), batch);
    i = end;
  }
  if (!status.ok()) batch.records.resize(begin);
  return status;
}

// Reads the bytes from place number `first` to the end of place number `last`, and finds the
// records in them.
absl::Status RecordFile::ReadPlaces(size_t first, size_t last, absl::Span<const Wanted> wanted,
                                    RecordBatch& batch) const {
  const RecordPlace& from = index_.places[first];
  const auto size = static_cast<size_t>(index_.After(last).offset - from.offset);
  auto memory = std::make_unique_for_overwrite<char[]>(size);
  RETURN_IF_ERROR(data_->Read(from.offset, absl::MakeSpan(memory.get(), size)));
  uint64_t record = from.record;
  uint64_t begin = from.offset;
  absl::Status status;
  const auto on_end = [&](uint64_t end) {
    if (!wanted.empty() && wanted[0].number == record && status.ok()) {
      const absl::Span<char> extent(memory.get() + (begin - from.offset),
                                    static_cast<size_t>(end - begin));
      const absl::StatusOr<absl::string_view> content = RecordContent(format_, extent, begin);
      status = Annotate(content.status(), absl::StrCat(path_, ": record ", record));
      for (; !wanted.empty() && wanted[0].number == record; wanted.remove_prefix(1)) {
        if (content.ok()) batch.records[wanted[0].slot] = *content;
      }
    }
    ++record;
    begin = end;
  };
  const auto scanner = MakeRecordScanner(format_, from.offset);
  // The scanner keeps no views of the bytes, but RecordContent() may change those of records that
  // have ended.
  absl::Status scanned = scanner->Add({memory.get(), size}, on_end);
  if (scanned.ok()) scanned = scanner->Finish(on_end);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(Annotate(scanned, path_));
  if (!wanted.empty()) {
    return absl::DataLossError(
        absl::StrCat(path_, ": has fewer records than when it was indexed: it has changed since"));
  }
  batch.memory.push_back(std::move(memory));
  return absl::OkStatus();
}

}  // namespace cohort
