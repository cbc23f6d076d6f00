#pragma once

// The memory of one slice's value, or of one of its slots, in pages of whole rows. Each page stays
// readable while it is replaced (value_buffer.h), so a push of some rows copies at most the pages
// that hold these rows and have readers, never the whole value. The pages of a value and of its
// slots begin at the same rows.

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/runtime/update/update_kernel.h"
#include "common/wire/message.h"
#include "ps_server/slice/value_buffer.h"

namespace cohort {

// The upper bound of the bytes in a page of a slice's value, unless a single row is longer.
inline constexpr size_t kPageBytes = size_t{64} << 10;

// The value, or one slot, of a slice as a list of pages. Thread-compatible, as ValueBuffer.
class PagedValue {
 public:
  struct Pages {
    size_t elements = 0;  // elements of each page, a whole number of rows
    size_t spares_max = 0;
  };
  // Makes the pages from the bytes of `value`, a tensor in `memory`. `memory` outlives the pages.
  PagedValue(const Tensor& value, VariableMemory& memory, const Pages& pages);

  size_t num_pages() const { return pages_.size(); }
  ValueBuffer& page(size_t i) { return pages_[i]; }
  const ValueBuffer& page(size_t i) const { return pages_[i]; }
  size_t elements_of(size_t page) const {
    return static_cast<size_t>(pages_[page].current().num_elements());
  }

  // Leases the bytes of all pages as they are now. For a device's memory, tensors may keep the
  // leased bytes; such a tensor then holds the lease.
  Payload Lease() const;
  // Replaces the whole value: `fill` is called for each page in order and writes all bytes of the
  // page.
  void Replace(absl::FunctionRef<void(std::byte* out, size_t size)> fill);

  // Returns the bytes of all pages and their spare blocks.
  size_t resident_bytes() const;

  // Aborts unless all pages but the last have the same number of elements.
  void CheckInvariants() const;

 private:
  bool keeps_ = false;  // whether a tensor may keep the bytes of a page
  std::vector<ValueBuffer> pages_;
};

// The writer that replaces a value and its slots page by page, in ascending order of rows, and
// points an update step at the spans of a page. Thread-compatible.
class PageWriter {
 public:
  // Begins to write. `widths` has for each slot the number of value elements that share one element
  // of the slot. `value`, `slots` and `widths` outlive the writer.
  PageWriter(PagedValue& value, std::vector<PagedValue>& slots, absl::Span<const size_t> widths)
      : value_(value), slots_(slots), widths_(widths) {}
  // Makes the pages that were written current.
  ~PageWriter() { Leave(); }
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  // Begins to write a page. Elements of the page that are not written are undefined.
  void Enter(size_t page);
  // Points the step at `count` elements of the value, from `begin` on, and at the slots' elements
  // beside them. `begin` counts from the start of the entered page.
  void SetSpans(size_t begin, size_t count, UpdateStep& step);
  // Enters the page of row `first` and points the step at those of the `count` rows from `first` on
  // that lie in the page. Returns their number.
  size_t SetRowSpans(size_t first, size_t count, size_t row_width, UpdateStep& step);

 private:
  static constexpr size_t kNone = ~size_t{0};

  void Leave();

  PagedValue& value_;
  std::vector<PagedValue>& slots_;
  const absl::Span<const size_t> widths_;
  size_t page_ = kNone;
};

// The addresses of single rows of a value and its slots, which are then changed in place. Rows of a
// page that is being read are copied first, and the copy is the current page from then on.
// Thread-compatible.
class RowPlaces {
 public:
  // Begins to change rows. `widths` is as for PageWriter; each width is 1 or `row_width`. The
  // caller takes no lease as long as the RowPlaces object lives.
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
  RowUpdate first_ = {};  // the addresses of the first row of `page_`
  size_t copied_bytes_ = 0;
};

}  // namespace cohort
