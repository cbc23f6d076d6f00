#pragma once

// The value of a slice before the last synchronous round that it applied. A step of that round may
// run again while other slices still wait for the round, because its worker was lost: it reads this
// value, so all steps of a round read the same values. After a round that changed all rows these
// are the earlier pages, leased; after one that changed some rows, copies of these rows. (A row of
// a dynamic table that the round's new rows have evicted, or that was found to have expired, is not
// among these.)

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/wire/message.h"
#include "ps_server/slice/paged_value.h"

namespace cohort {

// Thread-compatible.
class ValueBefore {
 public:
  struct Of {
    uint64_t round = 0;
    uint64_t version = 0;  // version of the value before the round
    size_t row_bytes = 0;
    size_t page_rows = 0;
    int64_t first_row = 0;                  // the slice's
    absl::Time now = absl::InfinitePast();  // time of a dynamic table before the round
  };

  // Keeps the whole value; the round is about to change it.
  void KeepAll(const Of& of, const PagedValue& value);
  // Keeps these rows, by their numbers in the whole variable or their keys, in any order and
  // possibly more than once; the round is about to change these rows alone. `read` copies rows as
  // they are now.
  using Read = absl::FunctionRef<void(absl::Span<const int64_t> rows, absl::Span<std::byte> out)>;
  void KeepRows(const Of& of, absl::Span<const int64_t> rows, Read read);
  void Forget() { *this = ValueBefore(); }

  // Returns whether a step of this round reads what is kept.
  bool IsFor(uint64_t round) const { return round != 0 && round == of_.round; }
  uint64_t version() const { return of_.version; }
  absl::Time now() const { return of_.now; }
  // Returns the bytes that are kept beside the pages.
  size_t copied_bytes() const { return kept_.size(); }

  // Returns the whole value; `now` is the value after the round.
  Payload All(const PagedValue& now) const;
  // Replaces rows in `out`, which are those after the round, by the rows before it.
  void TakeBack(absl::Span<const int64_t> rows, absl::Span<std::byte> out) const;

 private:
  // Returns null for a row that the round has not changed.
  const std::byte* Find(int64_t row) const;

  Of of_;
  Payload pages_;              // leased; none where single rows are kept
  std::vector<int64_t> rows_;  // ascending, of `kept_`
  std::vector<std::byte> kept_;
};

}  // namespace cohort
