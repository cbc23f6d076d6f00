#include "common/records/record_stream.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/records/record_file.h"
#include "common/records/unpacked/inflater.h"

namespace cohort {

namespace {

constexpr size_t kPieceBytes = 256 << 10;

// Cuts bytes that come in pieces into records. Thread-compatible.
class Cutter {
 public:
  using Take = absl::FunctionRef<bool(const ScannedRecord&)>;

  Cutter(const RecordFormat& format, Take take)
      : format_(format), take_(take), scanner_(MakeRecordScanner(format, 0)) {}

  // Takes the next bytes, or with `ended` the end of the file.
  absl::Status Add(absl::string_view bytes, bool ended) {
    pending_.append(bytes.data(), bytes.size());
    ends_.clear();
    const auto on_end = [&](uint64_t end) { ends_.push_back(end); };
    absl::Status scanned = scanner_->Add(bytes, on_end);
    if (scanned.ok() && ended) scanned = scanner_->Finish(on_end);
    // The records before the damage are given first.
    for (const uint64_t end : ends_) {
      if (is_done_) break;
      Give(end);
    }
    pending_.erase(0, begin_ - base_);
    base_ = begin_;
    return is_done_ ? absl::OkStatus() : scanned;
  }
  bool is_done() const { return is_done_; }

 private:
  void Give(uint64_t end) {
    const absl::Span<char> extent(pending_.data() + (begin_ - base_),
                                  static_cast<size_t>(end - begin_));
    ScannedRecord record{number_++, begin_, RecordContent(format_, extent, begin_)};
    is_done_ = !take_(record);
    begin_ = end;
  }

  const RecordFormat format_;
  const Take take_;
  const std::unique_ptr<RecordScanner> scanner_;
  std::string pending_;  // the bytes from offset base_ on
  uint64_t base_ = 0;
  uint64_t begin_ = 0;  // offset of the record that comes next
  uint64_t number_ = 0;
  std::vector<uint64_t> ends_;
  bool is_done_ = false;
};

}  // namespace

absl::Status ScanRecords(const ReadableFile& file, const std::string& path,
                         const RecordFormat& format, FileCompression compression,
                         absl::FunctionRef<bool(const ScannedRecord& record)> take) {
  const absl::StatusOr<FileCompression> found = CompressionOf(file, format, compression);
  if (!found.ok()) return Annotate(found.status(), path);
  std::unique_ptr<Inflater> inflater;
  if (*found != FileCompression::kNone) {
    ASSIGN_OR_RETURN(inflater, Inflater::AtStart(file, path, *found, /*points=*/nullptr));
  }
  Cutter cutter(format, take);
  std::vector<char> piece(kPieceBytes);
  for (uint64_t offset = 0; !cutter.is_done();) {
    size_t got = std::min<uint64_t>(piece.size(), file.size() - std::min(offset, file.size()));
    if (inflater != nullptr) {
      ASSIGN_OR_RETURN(got, inflater->Read(absl::MakeSpan(piece)));
    } else {
      RETURN_IF_ERROR(file.Read(offset, absl::MakeSpan(piece).subspan(0, got)));
    }
    offset += got;
    const bool ended = got < piece.size();
    RETURN_IF_ERROR(Annotate(cutter.Add({piece.data(), got}, ended), path));
    if (ended) break;
  }
  return absl::OkStatus();
}

}  // namespace cohort
