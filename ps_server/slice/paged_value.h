#pragma once

// The memory of a slice's value, or of one of its slots, divided into pages of whole rows. Readers
// may go on reading a page's old content while a push writes its new content elsewhere
// (value_buffer.h). So a push of some rows copies at most the pages that contain these rows and are
// being read, never the whole value. The pages of a value and of its slots begin at the same rows.

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/runtime/update/update_kernel.h"
#include "common/wire/message.h"
#include "ps_server/slice/value_buffer.h"

namespace cohort {

// The upper bound of the size in bytes of a page of a slice's value, unless a single row is longer.
inline constexpr size_t kPageBytes = size_t{64} << 10;

// The value of a slice, or one of its slots, as a list of pages. Thread-compatible: all calls are
// made under the slice's lock, but leases may end on any thread.
class PagedValue {
 public:
  struct Pages {
    size_t elements = 0;  // number of elements in a page, which has whole rows
    size_t spares_max = 0;
  };
  // Divides the tensor `value`, which lies in `memory`, into pages. `memory` outlives this object.
  PagedValue(const Tensor& value, VariableMemory& memory, const Pages& pages);

  size_t num_pages() const { return pages_.size(); }
  ValueBuffer& page(size_t i) { return pages_[i]; }
  const ValueBuffer& page(size_t i) const { return pages_[i]; }
  size_t elements_of(size_t page) const {
    return static_cast<size_t>(pages_[page].current().num_elements());
  }

  // Leases the present content of all pages. If a kernel of the device reads values in place,
  // tensors may refer to the leased memory, and each such tensor holds the lease.
  Payload Lease() const;
  // Replaces the whole value. Calls `fill` for each page in order; `fill` must write all `size`
  // bytes at `out`.
  void Replace(absl::FunctionRef<void(std::byte* out, size_t size)> fill);

  // Returns the total size of all pages and their spare blocks in bytes.
  size_t resident_bytes() const;

  // Aborts unless all pages but the last have the same number of elements, and the last page has at
  // most that number.
  void CheckInvariants() const;

 private:
  // Whether tensors may refer to the leased memory of a page and hold its lease.
  bool keeps_ = false;
  std::vector<ValueBuffer> pages_;
};

// A writer of new content for a value and its slots, page by page in ascending order of rows. The
// writer points the spans of an UpdateStep to parts of a page. Thread-compatible.
class PageWriter {
 public:
  // Makes a writer. For each slot, `widths` says how many elements of the value share one element
  // of the slot. `value`, `slots` and `widths` outlive the writer.
  PageWriter(PagedValue& value, std::vector<PagedValue>& slots, absl::Span<const size_t> widths)
      : value_(value), slots_(slots), widths_(widths) {}
  // Makes the new content of the last entered page current.
  ~PageWriter() { Leave(); }
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  // Begins to write page number `page`, and makes the new content of the page entered before it
  // current. Elements of the page that the caller does not write are undefined.
  void Enter(size_t page);
  // Sets the spans of `step` to `count` elements of the value and to the elements of the slots that
  // belong to them. `begin` is the first element, counted from the start of the entered page.
  void SetSpans(size_t begin, size_t count, UpdateStep& step);
  // Calls Enter() for the page that contains row `first`, and sets the spans of `step` to those of
  // the rows [first, first + count) that lie in this page. Returns the number of these rows. No
  // content is copied: the step reads the old content of the rows through its input spans, and must
  // write their new content through its output spans, which may point to other memory.
  size_t SetRowSpans(size_t first, size_t count, size_t row_width, UpdateStep& step);

 private:
  static constexpr size_t kNone = ~size_t{0};

  void Leave();

  PagedValue& value_;
  std::vector<PagedValue>& slots_;
  const absl::Span<const size_t> widths_;
  size_t page_ = kNone;
};

// A finder of the addresses of single rows of a value and its slots, at which the rows are changed
// in place. A page that is being read is copied first, and the copy becomes the current page.
// Thread-compatible.
class RowPlaces {
 public:
  // Makes an object that has not looked up any row yet. `widths` is as for PageWriter, and each
  // width is 1 or `row_width`. Nobody may take a lease on the value or the slots while this object
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
  RowUpdate first_ = {};  // addresses of the first row of page number `page_`
  size_t copied_bytes_ = 0;
};

}  // namespace cohort
