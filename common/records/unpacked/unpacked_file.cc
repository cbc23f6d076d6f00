#include "common/records/unpacked/unpacked_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr size_t kPieceBytes = 256 << 10;
// The largest number of inflaters that wait for the next read of a file. Each has 300 KiB.
constexpr size_t kCursorsMax = 4;

// Collects the restart points of a file while it is unpacked, and the checksums of what lies
// between them. Thread-compatible.
class IndexMaker {
 public:
  explicit IndexMaker(uint64_t packed_size) : packed_spacing_(packed_size / kPointsMax) {}

  // Both distances count, so that there are never more than kPointsMax points, whatever the file
  // unpacks to.
  bool Wants(const RestartPoint& place) const {
    if (index_.points.empty()) return true;
    const RestartPoint& last = index_.points.back();
    return place.unpacked - last.unpacked >= kPointSpacing &&
           place.packed - last.packed > packed_spacing_;
  }
  void Keep(RestartPoint point) { index_.points.push_back(std::move(point)); }

  // Adds the next unpacked bytes, whose points have been kept.
  void Add(absl::string_view bytes) {
    while (index_.checksums.size() < index_.points.size()) {
      // The next point lies in these bytes, or just behind them.
      const uint64_t before = index_.points[index_.checksums.size()].unpacked - index_.size;
      Extend(bytes.substr(0, before));
      bytes.remove_prefix(before);
      index_.checksums.push_back(0);
    }
    Extend(bytes);
  }
  UnpackedIndex Take() { return std::move(index_); }

 private:
  void Extend(absl::string_view bytes) {
    if (bytes.empty()) return;
    index_.checksums.back() = ExtendCrc32c(index_.checksums.back(), bytes);
    index_.size += bytes.size();
  }

  const uint64_t packed_spacing_;
  UnpackedIndex index_;
};

// The unpacked data of a file. Thread-safe.
class UnpackedFile final : public ReadableFile {
 public:
  UnpackedFile(std::unique_ptr<ReadableFile> packed, std::string path, FileCompression compression,
               UnpackedIndex index, std::shared_ptr<SpanCache> cache)
      : packed_(std::move(packed)),
        path_(std::move(path)),
        compression_(compression),
        index_(std::move(index)),
        cache_(std::move(cache)),
        number_(cache_ == nullptr ? 0 : cache_->AddFile()) {}
  ~UnpackedFile() override {
    if (cache_ != nullptr) cache_->RemoveFile(number_);
  }

  uint64_t size() const override { return index_.size; }

  absl::Status Read(uint64_t offset, absl::Span<char> out) const override {
    if (offset > size() || out.size() > size() - offset) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": unpacks to ", size(), " bytes, and ",
                                                out.size(), " at ", offset, " are asked for"));
    }
    while (!out.empty()) {
      const size_t span = PointBefore(offset);
      const uint64_t end = EndOf(span);
      const bool is_kept =
          cache_ != nullptr && end - index_.points[span].unpacked <= SpanCache::kSpanBytesMax;
      if (!is_kept) return ReadUnkept(offset, out);
      const auto piece = out.subspan(0, std::min<uint64_t>(end - offset, out.size()));
      ASSIGN_OR_RETURN(const SpanCache::Span unpacked,
                       cache_->Get(number_, span, [&] { return Unpack(span); }));
      std::memcpy(piece.data(), unpacked->data() + (offset - index_.points[span].unpacked),
                  piece.size());
      offset += piece.size();
      out.remove_prefix(piece.size());
    }
    return absl::OkStatus();
  }

 private:
  // An inflater, and the checksum of what it has unpacked since the last restart point.
  struct Cursor {
    std::unique_ptr<Inflater> inflater;
    size_t point = 0;
    uint32_t checksum = 0;
  };

  // Reads without the cache, as do spans that are too large for it.
  absl::Status ReadUnkept(uint64_t offset, absl::Span<char> out) const {
    ASSIGN_OR_RETURN(Cursor cursor, CursorFor(offset));
    RETURN_IF_ERROR(Skip(cursor, offset));
    RETURN_IF_ERROR(Advance(cursor, out));
    PutBack(std::move(cursor));
    return absl::OkStatus();
  }

  // Unpacks the data between two points.
  absl::StatusOr<std::vector<char>> Unpack(size_t span) const {
    const uint64_t begin = index_.points[span].unpacked;
    std::vector<char> unpacked(EndOf(span) - begin);
    RETURN_IF_ERROR(ReadUnkept(begin, absl::MakeSpan(unpacked)));
    return unpacked;
  }

  // Returns the number of the last point at or before the offset.
  size_t PointBefore(uint64_t offset) const {
    const auto after = std::upper_bound(
        index_.points.begin(), index_.points.end(), offset,
        [](uint64_t at, const RestartPoint& point) { return at < point.unpacked; });
    return static_cast<size_t>(after - index_.points.begin()) - 1;
  }
  uint64_t EndOf(size_t point) const {
    return point + 1 < index_.points.size() ? index_.points[point + 1].unpacked : size();
  }

  // Returns the cursor that is nearest before the offset, if no point is nearer, else a new one.
  absl::StatusOr<Cursor> CursorFor(uint64_t offset) const {
    const size_t point = PointBefore(offset);
    {
      MutexLock lock(mutex_);
      auto best = idle_.end();
      for (auto cursor = idle_.begin(); cursor != idle_.end(); ++cursor) {
        const uint64_t at = cursor->inflater->position();
        if (at > offset || at < index_.points[point].unpacked) continue;
        if (best == idle_.end() || at > best->inflater->position()) best = cursor;
      }
      if (best != idle_.end()) {
        Cursor taken = std::move(*best);
        idle_.erase(best);
        return taken;
      }
    }
    Cursor cursor;
    cursor.point = point;
    ASSIGN_OR_RETURN(cursor.inflater,
                     Inflater::AtPoint(*packed_, path_, compression_, index_.points[point]));
    return cursor;
  }

  void PutBack(Cursor cursor) const {
    // The cursor that has waited longest is dropped outside the lock.
    Cursor dropped;
    MutexLock lock(mutex_);
    if (idle_.size() == kCursorsMax) {
      dropped = std::move(idle_.front());
      idle_.erase(idle_.begin());
    }
    idle_.push_back(std::move(cursor));
  }

  absl::Status Skip(Cursor& cursor, uint64_t offset) const {
    std::vector<char> scratch(
        std::min<uint64_t>(offset - cursor.inflater->position(), kPieceBytes));
    while (cursor.inflater->position() < offset) {
      const uint64_t left = offset - cursor.inflater->position();
      RETURN_IF_ERROR(Advance(
          cursor, absl::MakeSpan(scratch).subspan(0, std::min<uint64_t>(left, kPieceBytes))));
    }
    return absl::OkStatus();
  }

  // Unpacks into the whole of `out`, and compares the checksum of each span that ends in it.
  absl::Status Advance(Cursor& cursor, absl::Span<char> out) const {
    while (!out.empty()) {
      const uint64_t end = EndOf(cursor.point);
      const uint64_t left = end - cursor.inflater->position();
      const auto piece = out.subspan(0, std::min<uint64_t>(left, out.size()));
      ASSIGN_OR_RETURN(const size_t got, cursor.inflater->Read(piece));
      if (got < piece.size()) return Changed();
      cursor.checksum = ExtendCrc32c(cursor.checksum, {piece.data(), piece.size()});
      out.remove_prefix(piece.size());
      if (cursor.inflater->position() < end) continue;
      if (cursor.checksum != index_.checksums[cursor.point]) return Changed();
      ++cursor.point;
      cursor.checksum = 0;
    }
    return absl::OkStatus();
  }

  absl::Status Changed() const {
    return absl::DataLossError(
        absl::StrCat(path_,
                     ": does not unpack to the data of which its index was made: the file "
                     "has changed or is damaged; fetch it again, or remove its index"));
  }

  const std::unique_ptr<ReadableFile> packed_;
  const std::string path_;
  const FileCompression compression_;
  const UnpackedIndex index_;
  const std::shared_ptr<SpanCache> cache_;  // null: nothing is kept
  const uint64_t number_;                   // number of this file in the cache
  mutable Mutex mutex_;
  mutable std::vector<Cursor> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<UnpackedIndex> IndexUnpacked(
    const ReadableFile& file, const std::string& path, FileCompression compression,
    absl::FunctionRef<absl::Status(absl::string_view bytes)> consume) {
  IndexMaker maker(file.size());
  const Inflater::PointSink sink = {[&](const RestartPoint& place) { return maker.Wants(place); },
                                    [&](RestartPoint point) { maker.Keep(std::move(point)); }};
  ASSIGN_OR_RETURN(const std::unique_ptr<Inflater> inflater,
                   Inflater::AtStart(file, path, compression, &sink));
  std::vector<char> piece(kPieceBytes);
  size_t got = 0;
  do {
    ASSIGN_OR_RETURN(got, inflater->Read(absl::MakeSpan(piece)));
    const absl::string_view bytes(piece.data(), got);
    maker.Add(bytes);
    RETURN_IF_ERROR(consume(bytes));
  } while (got == piece.size());
  return maker.Take();
}

std::unique_ptr<ReadableFile> OpenUnpacked(std::unique_ptr<ReadableFile> packed, std::string path,
                                           FileCompression compression, UnpackedIndex index,
                                           std::shared_ptr<SpanCache> cache) {
  return std::make_unique<UnpackedFile>(std::move(packed), std::move(path), compression,
                                        std::move(index), std::move(cache));
}

}  // namespace cohort
