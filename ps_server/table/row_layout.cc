#include "ps_server/table/row_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

RowLayout::RowLayout(const std::string& table, size_t width, const InitializerSpec& initializer)
    : initializer_(initializer), stream_(initializer.seed, table), width_(width) {}

absl::StatusOr<RowLayout> RowLayout::Make(const std::string& table, size_t width,
                                          const InitializerSpec& initializer,
                                          const UpdateRuleSpec& rule) {
  if (width == 0 || width > kWidthMax) {
    return absl::InvalidArgumentError(absl::StrCat("table '", table, "': rows of ", width,
                                                   " elements; 1 to ", kWidthMax, " will do"));
  }
  RETURN_IF_ERROR(CheckInitializer(initializer, DType::kFloat32));
  RowLayout layout(table, width, initializer);
  size_t floats = width;
  for (const SlotSpec& slot : rule.slots) {
    const size_t elements = slot.per_row ? 1 : width;
    layout.slots_.push_back({floats, elements, slot.initial_value, slot.starts_as_value});
    floats += elements;
  }
  layout.payload_floats_ = floats;
  layout.row_bytes_ = (sizeof(RowHeader) + floats * sizeof(float) + 7) / 8 * 8;
  return layout;
}

void RowLayout::Fill(uint64_t key, std::byte* row) const {
  Header(row) = {key, 0, 1};
  float* const values = Values(row);
  FillFromStream(initializer_, stream_.Child(key), absl::MakeSpan(values, width_));
  for (const Slot& slot : slots_) {
    if (slot.starts_as_value) {
      std::copy_n(values, slot.elements, values + slot.offset);
    } else {
      std::fill_n(values + slot.offset, slot.elements, slot.initial_value);
    }
  }
}

}  // namespace cohort
