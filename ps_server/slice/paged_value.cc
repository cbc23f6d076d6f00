#include "ps_server/slice/paged_value.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/invariants.h"

namespace cohort {

namespace {

// Returns the spans of `count` elements of a page, from element `begin` on: the input span lies in
// the page's current block, and the output span in the block that will replace it.
SlotSpans SpansOf(ValueBuffer& page, size_t begin, size_t count) {
  return {page.current().span<float>().subspan(begin, count),
          absl::MakeSpan(page.next().mutable_data<float>() + begin, count)};
}

}  // namespace

PagedValue::PagedValue(const Tensor& value, VariableMemory& memory, const Pages& pages)
    : keeps_(memory.in_one_piece()) {
  const size_t count = static_cast<size_t>(value.num_elements());
  const size_t size = ElementSize(value.dtype());
  pages_.reserve(count / pages.elements + 1);
  size_t begin = 0;
  do {  // a value without elements has one empty page
    const size_t elements = std::min(pages.elements, count - begin);
    pages_.emplace_back(Tensor(value.dtype(), Shape{static_cast<int64_t>(elements)}, value.buffer(),
                               value.offset() + begin * size),
                        memory, pages.spares_max);
    begin += elements;
  } while (begin < count);
  const InvariantsAfter check(*this);
}

Payload PagedValue::Lease() const {
  Payload payload;
  payload.reserve(pages_.size());
  for (const ValueBuffer& page : pages_) {
    const Tensor& tensor = page.current();
    if (tensor.num_bytes() == 0) continue;
    const std::shared_ptr<const BufferMemory> lease = page.Lease();
    payload.push_back({lease, tensor.raw(), tensor.num_bytes()});
    if (!keeps_) continue;
    // The const_cast is safe: readers of a payload do not write to it, and the buffer's writable()
    // returns false.
    auto* const bytes = const_cast<std::byte*>(tensor.raw());
    payload.back().buffer = Buffer::Of(lease, absl::MakeSpan(bytes, tensor.num_bytes()));
  }
  return payload;
}

void PagedValue::Replace(absl::FunctionRef<void(std::byte* out, size_t size)> fill) {
  const InvariantsAfter check(*this);
  for (ValueBuffer& page : pages_) {
    Tensor& next = page.Next();
    if (next.num_bytes() > 0) fill(next.mutable_raw(), next.num_bytes());
    page.Commit();
  }
}

size_t PagedValue::resident_bytes() const {
  size_t bytes = 0;
  for (const ValueBuffer& page : pages_) bytes += page.resident_bytes();
  return bytes;
}

void PagedValue::CheckInvariants() const {
  COHORT_CHECK(!pages_.empty(), "an empty value has one empty page");
  if (pages_.size() > kInvariantWalkMax) return;
  for (size_t i = 0; i < pages_.size(); ++i) {
    const bool last = i + 1 == pages_.size();
    COHORT_CHECK(last ? elements_of(i) <= elements_of(0) : elements_of(i) == elements_of(0),
                 "only the last page is shorter");
    pages_[i].CheckInvariants();
  }
}

void PageWriter::Enter(size_t page) {
  if (page == page_) return;
  Leave();
  page_ = page;
  // The writer enters page number `page` of the value and of every slot, and makes them all current
  // later in Leave().
  value_.page(page).Next();
  for (PagedValue& slot : slots_) slot.page(page).Next();
}

void PageWriter::Leave() {
  if (page_ == kNone) return;
  value_.page(page_).Commit();
  for (PagedValue& slot : slots_) slot.page(page_).Commit();
  page_ = kNone;
}

void PageWriter::SetSpans(size_t begin, size_t count, UpdateStep& step) {
  const SlotSpans value = SpansOf(value_.page(page_), begin, count);
  step.value_in = value.in;
  step.value_out = value.out;
  for (size_t i = 0; i < slots_.size(); ++i) {
    step.slots[i] = SpansOf(slots_[i].page(page_), begin / widths_[i], count / widths_[i]);
  }
}

size_t PageWriter::SetRowSpans(size_t first, size_t count, size_t row_width, UpdateStep& step) {
  // Page 0 has the number of rows of every page but the last, which may have fewer.
  const size_t page_rows = value_.elements_of(0) / row_width;
  Enter(first / page_rows);
  // `count` is reduced to the rows in this page. The caller calls SetRowSpans() again for the rows
  // in the next page.
  const size_t begin = first % page_rows;
  count = std::min(count, value_.elements_of(page_) / row_width - begin);
  SetSpans(begin * row_width, count * row_width, step);
  return count;
}

RowPlaces::RowPlaces(PagedValue& value, std::vector<PagedValue>& slots,
                     absl::Span<const size_t> widths, size_t row_width)
    : value_(value),
      slots_(slots),
      widths_(widths),
      row_width_(row_width),
      page_rows_(std::max<size_t>(value.elements_of(0) / row_width, 1)) {}

// The addresses of rows are taken after InPlace(), because InPlace() may replace the page by a
// copy.
void RowPlaces::Enter(size_t page) {
  page_ = page;
  first_.value = value_.page(page).InPlace(copied_bytes_).mutable_data<float>();
  for (size_t i = 0; i < slots_.size(); ++i) {
    first_.slots[i] = slots_[i].page(page).InPlace(copied_bytes_).mutable_data<float>();
  }
}

void RowPlaces::Find(size_t row, RowUpdate& place) {
  if (row / page_rows_ != page_) Enter(row / page_rows_);
  const size_t begin = row % page_rows_ * row_width_;
  place.value = first_.value + begin;
  for (size_t i = 0; i < slots_.size(); ++i) place.slots[i] = first_.slots[i] + begin / widths_[i];
}

}  // namespace cohort
