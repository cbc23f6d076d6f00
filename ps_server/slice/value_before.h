#pragma once

// The value that a slice had before the last synchronous round that it applied. If a worker is
// lost, its step of that round may run again while other slices have not applied the round yet. The
// repeated step reads the value from before the round, so that all steps of the round read the same
// values. If the round changed all rows, the former pages are kept by leases; if the round changed
// only some rows, copies of these rows are kept. (In a dynamic table, rows that the round removed,
// to make room for new rows or because they had expired, are not kept.)

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/wire/message.h"
#include "ps_server/slice/paged_value.h"

namespace cohort {

// The value from before a slice's last round: leased pages of the whole value, or copies of the
// rows that the round changed. Thread-compatible.
class ValueBefore {
 public:
  struct Of {
    uint64_t round = 0;
    uint64_t version = 0;  // the slice's version before the round
    size_t row_bytes = 0;
    size_t page_rows = 0;
    int64_t first_row = 0;  // number of the slice's first row, counted in the whole variable
    absl::Time now = absl::InfinitePast();  // time of the dynamic table before the round
  };

  // Keeps the whole value by leases on its pages. Called just before a round changes all rows.
  void KeepAll(const Of& of, const PagedValue& value);
  // Keeps copies of the rows `rows`. Called just before a round changes these rows and no others.
  // `rows` are row numbers in the whole variable, or keys of a dynamic table, in any order and
  // possibly repeated. `read` copies the present content of the given rows to `out`.
  using Read = absl::FunctionRef<void(absl::Span<const int64_t> rows, absl::Span<std::byte> out)>;
  void KeepRows(const Of& of, absl::Span<const int64_t> rows, Read read);
  void Forget() { *this = ValueBefore(); }

  // Returns whether a step of round `round` must read the kept value instead of the slice's current
  // value.
  bool IsFor(uint64_t round) const { return round != 0 && round == of_.round; }
  uint64_t version() const { return of_.version; }
  absl::Time now() const { return of_.now; }
  // Returns the size of the copied rows in bytes. Leased pages are not counted.
  size_t copied_bytes() const { return kept_.size(); }

  // Returns the whole value of the slice as it was before the round. `now` is the present value.
  Payload All(const PagedValue& now) const;
  // Turns `out` back to the content from before the round. On entry `out` has the present content
  // of `rows`; each row that the round has changed is overwritten by its kept content.
  void TakeBack(absl::Span<const int64_t> rows, absl::Span<std::byte> out) const;

 private:
  // Returns the kept content of a row, or null if the round did not change the row.
  const std::byte* Find(int64_t row) const;

  Of of_;
  Payload pages_;  // leases of all pages of the value; empty if rows were copied instead
  // Numbers of the copied rows in the whole variable, or their keys, ascending.
  std::vector<int64_t> rows_;
  std::vector<std::byte> kept_;
};

}  // namespace cohort
