#include "ps_server/slice/whole_update.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace cohort {

namespace {

// Returns a copy of all pages, one after another.
std::vector<float> Joined(const PagedValue& paged) {
  std::vector<float> all;
  for (size_t page = 0; page < paged.num_pages(); ++page) {
    const Tensor& content = paged.page(page).current();
    const float* const floats = content.data<float>();
    all.insert(all.end(), floats, floats + content.num_elements());
  }
  return all;
}

// Replaces the content of all pages. Replace() writes pages that are being read to other memory.
void ReplaceBy(const std::vector<float>& all, PagedValue& paged) {
  const size_t bytes = all.size() * sizeof(float);
  size_t done = 0;
  paged.Replace([&](std::byte* out, size_t size) {
    COHORT_CHECK(done + size <= bytes, "as many elements as the pages have");
    std::memcpy(out, reinterpret_cast<const std::byte*>(all.data()) + done, size);
    done += size;
  });
}

}  // namespace

void UpdateWhole(const UpdateKernel& kernel, UpdateStep step, PagedValue& value,
                 std::vector<PagedValue>& slots) {
  // An empty slice has no whole from which a rule could take norms.
  if (step.gradient.empty()) return;
  std::vector<float> values = Joined(value);
  std::vector<std::vector<float>> of_slots;
  for (const PagedValue& slot : slots) of_slots.push_back(Joined(slot));
  // The kernel reads and writes the copies, so input and output may be the same memory.
  step.value_in = values;
  step.value_out = absl::MakeSpan(values);
  step.slots.clear();
  for (std::vector<float>& slot : of_slots) step.slots.push_back({slot, absl::MakeSpan(slot)});
  kernel.Apply(step);
  ReplaceBy(values, value);
  for (size_t i = 0; i < slots.size(); ++i) ReplaceBy(of_slots[i], slots[i]);
}

std::vector<float> WithAllRows(const MergedRows& gradients, size_t count) {
  std::vector<float> all(count);
  // MergedRows has each row once, so rows are copied and not added up.
  const size_t width = gradients.width();
  for (size_t i = 0; i < gradients.size(); ++i) {
    const size_t begin = static_cast<size_t>(gradients.row(i)) * width;
    COHORT_CHECK(begin + width <= count, "rows of the slice");
    const absl::Span<const float> gradient = gradients.gradient(i);
    std::copy(gradient.begin(), gradient.end(), all.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return all;
}

}  // namespace cohort
