#pragma once

// The memory of one slice's value, or of one of its slots, in pages of whole rows. Each page is
// readable while it is replaced (value_buffer.h), so a push of some rows that finds readers copies
// the pages that have these rows, and never the whole. The pages of a value and of its slots begin
// at the same rows.

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/runtime/update/update_kernel.h"
#include "common/wire/message.h"
#include "ps_server/slice/value_buffer.h"

namespace cohort {

// Upper bound of a page of the value, unless a single row is longer.
inline constexpr size_t kPageBytes = size_t{64} << 10;

// Thread-compatible, as ValueBuffer.
class PagedValue {
 public:
  struct Pages {
    size_t elements = 0;  // elements of each, whole rows
    size_t spares_max = 0;
  };
  // Makes pages of the bytes of `value`, which lies in `memory`, which outlives this.
  PagedValue(const Tensor& value, VariableMemory& memory, const Pages& pages);

  size_t num_pages() const { return pages_.size(); }
  ValueBuffer& page(size_t i) { return pages_[i]; }
  const ValueBuffer& page(size_t i) const { return pages_[i]; }
  size_t elements_of(size_t page) const {
    return static_cast<size_t>(pages_[page].current().num_elements());
  }

  // Leases all bytes as they are now. A tensor may keep bytes in a device's memory, and then holds
  // the lease.
  Payload Lease() const;
  // Replaces the value: `fill` writes each page's bytes, in order.
  void Replace(absl::FunctionRef<void(std::byte* out, size_t size)> fill);

  // Returns the bytes of all pages with their spares.
  size_t resident_bytes() const;

  // Aborts unless all pages but the last have the same number of elements.
  void CheckInvariants() const;

 private:
  bool keeps_ = false;  // whether a tensor may keep a page
  std::vector<ValueBuffer> pages_;
};

// Goes through the pages of a value and its slots together, by ascending rows, to write all of
// them anew, and has the update steps' spans in them. Thread-compatible.
class PageWriter {
 public:
  // Begins to write. `widths` are the elements of the value for one element of each slot. All three
  // outlive the writer.
  PageWriter(PagedValue& value, std::vector<PagedValue>& slots, absl::Span<const size_t> widths)
      : value_(value), slots_(slots), widths_(widths) {}
  // Makes what was written current.
  ~PageWriter() { Leave(); }
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  // Comes to a page; what is not written of it is undefined.
  void Enter(size_t page);
  // Elements of the value in the page that was entered, counted from its begin.
  void SetSpans(size_t begin, size_t count, UpdateStep& step);
  // Enters the page of a row, and spans what it has of `count` rows.
  size_t SetRowSpans(size_t first, size_t count, size_t row_width, UpdateStep& step);

 private:
  static constexpr size_t kNone = ~size_t{0};

  void Leave();

  PagedValue& value_;
  std::vector<PagedValue>& slots_;
  const absl::Span<const size_t> widths_;
  size_t page_ = kNone;
};

// The places of some rows of a value and its slots, to be changed in place. Rows of pages that are
// being read lie in copies, which are the current pages from now on. Thread-compatible.
class RowPlaces {
 public:
  // Begins to change rows. `widths` are PageWriter's; all that are not 1 are the row's. Nobody
  // takes a lease as long as this lives.
  RowPlaces(PagedValue& value, std::vector<PagedValue>& slots, absl::Span<const size_t> widths,
            size_t row_width);

  void Find(size_t row, RowUpdate& place);

  size_t copied_bytes() const { return copied_bytes_; }

 private:
  static constexpr size_t kNone = ~size_t{0};

  void Enter(size_t page);

  PagedValue& value_;
  std::vector<PagedValue>& slots_;
  const absl::Span<const size_t> widths_;
  const size_t row_width_;
  const size_t page_rows_;
  size_t page_ = kNone;
  RowUpdate first_ = {};  // the first row of that page
  size_t copied_bytes_ = 0;
};

}  // namespace cohort
