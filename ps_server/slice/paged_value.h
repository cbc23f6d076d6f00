#pragma once

// The memory of a slice's value, or of one of its slots, divided into pages of whole rows. Each
// page stays readable while a new page replaces it (value_buffer.h). So a push of some rows copies
// at most the pages that contain these rows and are being read, never the whole value. A value and
// its slots are divided at the same rows.

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

// The value of a slice, or one of its slots, as a list of pages. Thread-compatible, as ValueBuffer
// is.
class PagedValue {
 public:
  struct Pages {
    size_t elements = 0;  // number of elements in a page, a whole number of rows
    size_t spares_max = 0;
  };
  // Divides the tensor `value`, which lies in `memory`, into pages. `memory` outlives the pages.
  PagedValue(const Tensor& value, VariableMemory& memory, const Pages& pages);

  size_t num_pages() const { return pages_.size(); }
  ValueBuffer& page(size_t i) { return pages_[i]; }
  const ValueBuffer& page(size_t i) const { return pages_[i]; }
  size_t elements_of(size_t page) const {
    return static_cast<size_t>(pages_[page].current().num_elements());
  }

  // Leases all pages with their present content. If a device's program reads values in place,
  // tensors may refer to the leased memory, and each such tensor holds the lease.
  Payload Lease() const;
  // Replaces the whole value. Calls `fill` for each page in order; `fill` writes all bytes of the
  // page.
  void Replace(absl::FunctionRef<void(std::byte* out, size_t size)> fill);

  // Returns the total size of all pages and their spare blocks in bytes.
  size_t resident_bytes() const;

  // Aborts unless all pages but the last have the same number of elements, and the last has no
  // more.
  void CheckInvariants() const;

 private:
  bool keeps_ = false;  // whether tensors may refer to the leased memory of a page
  std::vector<ValueBuffer> pages_;
};

// A writer of new content for a value and its slots, page by page in ascending order of rows. It
// sets the addresses in an update step to parts of a page. Thread-compatible.
class PageWriter {
 public:
  // Makes a writer. For each slot, `widths` says how many elements of the value share one element
  // of the slot. `value`, `slots` and `widths` outlive the writer.
  PageWriter(PagedValue& value, std::vector<PagedValue>& slots, absl::Span<const size_t> widths)
      : value_(value), slots_(slots), widths_(widths) {}
  // Makes the new content of the last page current.
  ~PageWriter() { Leave(); }
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  // Begins to write a page, and makes the new content of the page before it current. Elements that
  // are not written are undefined.
  void Enter(size_t page);
  // Sets the spans of `step` to `count` elements of the value and to the matching elements of the
  // slots. `begin` is the first element, counted from the start of the entered page.
  void SetSpans(size_t begin, size_t count, UpdateStep& step);
  // Enters the page that contains row `first`, and sets the spans of `step` to the rows [first,
  // first + count) as far as they lie in this page. Returns how many of the rows do.
  size_t SetRowSpans(size_t first, size_t count, size_t row_width, UpdateStep& step);

 private:
  static constexpr size_t kNone = ~size_t{0};

  void Leave();

  PagedValue& value_;
  std::vector<PagedValue>& slots_;
  const absl::Span<const size_t> widths_;
  size_t page_ = kNone;
};

// The addresses of single rows of a value and its slots, at which the rows are changed in place. A
// page that is being read is copied first, and the copy becomes the current page.
// Thread-compatible.
class RowPlaces {
 public:
  // Makes an object that finds no rows yet. `widths` is as for PageWriter, and each width is 1 or
  // `row_width`. The caller takes no lease on the value or the slots while the RowPlaces object
  // exists.
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
  RowUpdate first_ = {};  // addresses of the first row of page `page_`
  size_t copied_bytes_ = 0;
};

}  // namespace cohort
