#pragma once

// The memory layout of a row of a dynamic table: a header, the values in the table's type, and the
// slots of the table's update rule in float32. A slot has one element for each value, or a single
// element if SlotSpec::per_row is set. The size of a row is rounded up to a multiple of 8 bytes.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/rng.h"
#include "common/program/update_rule.h"
#include "common/tensor/dtype.h"
#include "common/tensor/initializer.h"
#include "common/tensor/shape.h"

namespace cohort {

struct RowHeader {
  uint64_t key;
  uint32_t stamp;  // time of the last push to the row (RowTime)
  // Number of pushes to the row, at most the largest uint32; 0 marks memory without a row.
  uint32_t uses;
};
static_assert(sizeof(RowHeader) == 16);

struct RowSpec {
  std::string table;
  size_t width = 0;               // number of values in a row
  DType dtype = DType::kFloat32;  // type of the values: float32 or a 16-bit float type
  InitializerSpec initializer;
};

// The positions of the values and slots in a row, and the initial content of a new row. Immutable;
// thread-safe.
class RowLayout {
 public:
  struct Slot {
    size_t offset = 0;  // position of the slot in the row, in bytes
    size_t elements = 0;
    bool per_row = false;  // whether the slot has a single element, not one for each value
    float initial_value = 0;
    bool starts_as_value = false;
    bool is_last_step = false;
  };

  // Makes the layout of a table's rows. Errors: INVALID_ARGUMENT for a width outside 1 ...
  // kWidthMax, a type that is not a float of 16 or 32 bits, an initializer that makes no float32
  // values, an unknown update rule, and a rule that changes rows without a gradient, since the
  // number of possible rows of a dynamic table is unlimited.
  static absl::StatusOr<RowLayout> Make(const RowSpec& spec, const proto::UpdateRule& rule);

  static constexpr size_t kWidthMax = 1 << 20;

  static RowHeader& Header(std::byte* row) { return *reinterpret_cast<RowHeader*>(row); }
  static std::byte* Values(std::byte* row) { return row + sizeof(RowHeader); }
  static float* SlotOf(std::byte* row, const Slot& slot) {
    return reinterpret_cast<float*>(row + slot.offset);
  }

  size_t width() const { return width_; }
  DType dtype() const { return dtype_; }
  bool is_float32() const { return dtype_ == DType::kFloat32; }
  const std::vector<Slot>& slots() const { return slots_; }
  // Returns the shape of a tensor with one slot of `rows` rows, as TableRows and checkpoints have
  // it.
  static Shape SlotShape(bool per_row, int64_t rows, int64_t width) {
    return per_row ? Shape{rows} : Shape{rows, width};
  }
  size_t row_bytes() const { return row_bytes_; }
  size_t value_bytes() const { return width_ * ElementSize(dtype_); }
  // Returns the size of a row's values and slots in bytes, without the header and without the
  // padding at the end.
  size_t payload_bytes() const { return payload_bytes_; }
  const RandomStream& stream() const { return stream_; }

  void Read(const std::byte* row, float* out) const;
  // Sets the values of `row` to `values`, rounded to the table's type.
  void Write(const float* values, std::byte* row) const;

  // Computes the initial values of a key's row. The values depend only on the seed, the table's
  // name and the key.
  void FillValues(uint64_t key, float* out) const;
  // Writes the header, the initial values and the initial slots of a key's new row. `step` is the
  // step of the push that makes the row.
  void Fill(uint64_t key, uint64_t step, std::byte* row) const;

 private:
  explicit RowLayout(const RowSpec& spec);

  InitializerSpec initializer_;
  RandomStream stream_;
  size_t width_;
  DType dtype_;
  std::vector<Slot> slots_;
  size_t payload_bytes_ = 0;
  size_t row_bytes_ = 0;
};

}  // namespace cohort
