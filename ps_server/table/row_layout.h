#pragma once

// What a row of a dynamic table is made of, one after the other without gaps: its header, its
// values, and the slots of the table's update rule, each as long as the values or, with
// SlotSpec::per_row, one element. Rounded up to 8 bytes.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/rng.h"
#include "common/program/update_rule.h"
#include "common/tensor/initializer.h"

namespace cohort {

struct RowHeader {
  uint64_t key;
  uint32_t stamp;  // of the last use, in the table's time
  uint32_t uses;   // 0: no row is here
};
static_assert(sizeof(RowHeader) == 16);

// Immutable; thread-safe.
class RowLayout {
 public:
  struct Slot {
    size_t offset = 0;  // in floats from the values on
    size_t elements = 0;
    float initial_value = 0;
    bool starts_as_value = false;
  };

  // Errors: INVALID_ARGUMENT for a width that is not in 1 ... kWidthMax, an unknown update rule or
  // an initializer that makes no float32 values.
  static absl::StatusOr<RowLayout> Make(const std::string& table, size_t width,
                                        const InitializerSpec& initializer,
                                        const UpdateRuleSpec& rule);

  static constexpr size_t kWidthMax = 1 << 20;

  static RowHeader& Header(std::byte* row) { return *reinterpret_cast<RowHeader*>(row); }
  static float* Values(std::byte* row) { return reinterpret_cast<float*>(row + sizeof(RowHeader)); }

  size_t width() const { return width_; }
  const std::vector<Slot>& slots() const { return slots_; }
  size_t row_bytes() const { return row_bytes_; }
  // Values and slots: what would be there without keys, too.
  size_t payload_bytes() const { return payload_floats_ * sizeof(float); }

  // A new row: values that depend on the seed, the table and the key alone, slots as the rule
  // starts them.
  void Fill(uint64_t key, std::byte* row) const;

 private:
  RowLayout(const std::string& table, size_t width, const InitializerSpec& initializer);

  InitializerSpec initializer_;
  RandomStream stream_;
  size_t width_;
  std::vector<Slot> slots_;
  size_t payload_floats_ = 0;
  size_t row_bytes_ = 0;
};

}  // namespace cohort
