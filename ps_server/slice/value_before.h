#pragma once

// The value that a slice had before the last synchronous round that it applied. If a worker is
// lost, its step of that round may run again while other slices still wait for the round. The
// repeated step reads the value from before the round, so all steps of a round read the same
// values. If the round changed all rows, the earlier pages are kept by leases; if the round changed
// some rows, copies of these rows are kept. (For a dynamic table, no copy is kept of a row that the
// round's new rows evicted or that was removed because it had expired.)

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/wire/message.h"
#include "ps_server/slice/paged_value.h"

namespace cohort {

// The value from before a slice's last round, kept whole or as copies of the changed rows.
// Thread-compatible.
class ValueBefore {
 public:
  struct Of {
    uint64_t round = 0;
    uint64_t version = 0;  // the version of the value before the round
    size_t row_bytes = 0;
    size_t page_rows = 0;
    int64_t first_row = 0;                  // the first row of the slice in the whole variable
    absl::Time now = absl::InfinitePast();  // a dynamic table's time before the round
  };

  // Keeps the whole value before a round changes it.
  void KeepAll(const Of& of, const PagedValue& value);
  // Keeps copies of some rows before a round changes just these rows. Rows are numbers in the whole
  // variable, or keys, in any order and possibly repeated. `read` copies rows as they are now.
  using Read = absl::FunctionRef<void(absl::Span<const int64_t> rows, absl::Span<std::byte> out)>;
  void KeepRows(const Of& of, absl::Span<const int64_t> rows, Read read);
  void Forget() { *this = ValueBefore(); }

  // Returns whether a step of round `round` must read the value that is kept.
  bool IsFor(uint64_t round) const { return round != 0 && round == of_.round; }
  uint64_t version() const { return of_.version; }
  absl::Time now() const { return of_.now; }
  // Returns the bytes of the copied rows; leased pages are not counted.
  size_t copied_bytes() const { return kept_.size(); }

  // Returns the whole value before the round; `now` is the value after the round.
  Payload All(const PagedValue& now) const;
  // Overwrites the changed rows in `out` by their content before the round. On entry `out` has the
  // rows as they are after the round.
  void TakeBack(absl::Span<const int64_t> rows, absl::Span<std::byte> out) const;

 private:
  // Returns the kept bytes of a row, or null for a row that the round has not changed.
  const std::byte* Find(int64_t row) const;

  Of of_;
  Payload pages_;              // leased pages; empty if copies of rows are kept
  std::vector<int64_t> rows_;  // ascending numbers or keys of the rows in `kept_`
  std::vector<std::byte> kept_;
};

}  // namespace cohort
