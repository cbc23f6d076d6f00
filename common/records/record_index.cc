#include "common/records/record_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

size_t RecordIndex::PlaceBefore(uint64_t record) const {
  const auto after = std::upper_bound(
      places.begin(), places.end(), record,
      [](uint64_t number, const RecordPlace& place) { return number < place.record; });
  return static_cast<size_t>(after - places.begin()) - 1;
}

RecordPlace RecordIndex::After(size_t place) const {
  return place + 1 < places.size() ? places[place + 1] : RecordPlace{records, end};
}

RecordIndexer::RecordIndexer(const RecordFormat& format)
    : format_(format),
      scanner_(MakeRecordScanner(format, format.header_bytes)),
      header_left_(format.header_bytes) {
  index_.end = format.header_bytes;
}

absl::Status RecordIndexer::Add(absl::string_view bytes) {
  const uint64_t skipped = std::min<uint64_t>(header_left_, bytes.size());
  header_left_ -= skipped;
  bytes.remove_prefix(skipped);
  if (format_.footer_bytes == 0) return Scan(bytes);
  // The last bytes are held back, because they may be the footer: the length of a packed file is
  // not known.
  absl::StrAppend(&last_, bytes);
  if (last_.size() <= format_.footer_bytes) return absl::OkStatus();
  const size_t body = last_.size() - format_.footer_bytes;
  RETURN_IF_ERROR(Scan(absl::string_view(last_).substr(0, body)));
  last_.erase(0, body);
  return absl::OkStatus();
}

absl::Status RecordIndexer::Scan(absl::string_view bytes) {
  return scanner_->Add(bytes, [this](uint64_t end) { NoteEnd(end); });
}

absl::StatusOr<RecordIndex> RecordIndexer::Finish() {
  if (header_left_ > 0 || last_.size() < format_.footer_bytes) {
    return absl::DataLossError(absl::StrCat("the file is shorter than its header of ",
                                            format_.header_bytes, " bytes and its footer of ",
                                            format_.footer_bytes));
  }
  RETURN_IF_ERROR(scanner_->Finish([this](uint64_t end) { NoteEnd(end); }));
  return std::move(index_);
}

void RecordIndexer::NoteEnd(uint64_t end) {
  const RecordPlace here{index_.records, index_.end};
  // Records or bytes, whichever are many first: a search passes over few records, and a read of one
  // record reads few bytes besides.
  const bool is_far = index_.places.empty() ||
                      here.record - index_.places.back().record >= kRecordsPerPlace ||
                      here.offset - index_.places.back().offset >= kBytesPerPlace;
  if (is_far) index_.places.push_back(here);
  index_.longest = std::max(index_.longest, end - index_.end);
  index_.end = end;
  ++index_.records;
}

}  // namespace cohort
