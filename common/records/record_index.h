#pragma once

// Where the records of a file are: the offsets of some records, from each of which the next ones
// are found by scanning. A file is indexed once, by scanning it from front to back.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/records/record_format.h"

namespace cohort {

// The beginning of one record.
struct RecordPlace {
  uint64_t record = 0;  // its number, counted from 0
  uint64_t offset = 0;
};

// Between two places there are at most so many records, or so many bytes and the rest of a record.
inline constexpr uint64_t kRecordsPerPlace = 64;
inline constexpr uint64_t kBytesPerPlace = 64 << 10;

struct RecordIndex {
  uint64_t records = 0;
  uint64_t end = 0;      // where the last record ends
  uint64_t longest = 0;  // the bytes of the longest record, from its beginning to its end
  std::vector<RecordPlace> places;  // ascending; the first is that of record 0, if there is one

  // Returns the number of the last place at or before `record`, which must be below `records`.
  size_t PlaceBefore(uint64_t record) const;
  // Returns the place after place number `place`: the end, after the last one.
  RecordPlace After(size_t place) const;
};

// Makes the index while the bytes of a file come. Thread-compatible.
class RecordIndexer {
 public:
  explicit RecordIndexer(const RecordFormat& format);

  absl::Status Add(absl::string_view bytes);
  // Errors: DATA_LOSS if the file ends inside a record, its header or its footer.
  absl::StatusOr<RecordIndex> Finish();

 private:
  void NoteEnd(uint64_t end);
  absl::Status Scan(absl::string_view bytes);

  const RecordFormat format_;
  const std::unique_ptr<RecordScanner> scanner_;
  uint64_t header_left_;
  std::string last_;  // the last bytes, which may be the footer
  RecordIndex index_;
};

}  // namespace cohort
