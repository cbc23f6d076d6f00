#pragma once

// One slice of a variable with its slots. Its version is the number of pushes that were applied. A
// pull leases the current value without a copy; a push that arrives while the value is leased
// writes the new one beside it (value_buffer.h). One lock per slice, held only for a memory pass
// over the slice, so pushes to different slices run at the same time and no reader sees a value
// half written.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/runtime/update_kernel.h"
#include "common/wire/message.h"
#include "ps_server/apply_log.h"
#include "ps_server/payload_cursor.h"
#include "ps_server/slice_layout.h"
#include "ps_server/value_buffer.h"

namespace cohort {

// Thread-safe.
class VariableShard {
 public:
  // Filled by the variable's initializer. Errors: INVALID_ARGUMENT from the rule or the
  // initializer.
  static absl::StatusOr<std::unique_ptr<VariableShard>> Create(SliceLayout layout);

  const SliceLayout& layout() const { return layout_; }
  const Shape& shape() const { return shape_; }
  size_t num_bytes() const { return num_bytes_; }

  struct Reading {
    ByteSlice bytes;  // owns a lease
    uint64_t version = 0;
  };
  Reading Read() const;

  struct UpdateContext {
    double learning_rate = 0;
    uint64_t step = 1;
  };
  struct Applied {
    bool duplicate = false;
    uint64_t version_before = 0;
  };
  // Takes num_bytes() of gradient from the cursor. `claim` is asked under the slice's lock, so that
  // a duplicate is answered only after the first has been applied. Errors: those of `claim`, and
  // then nothing was changed.
  absl::StatusOr<Applied> Apply(PayloadCursor& gradient, const UpdateContext& context,
                                absl::FunctionRef<absl::StatusOr<Claim>()> claim);

  // Replaces the value by num_bytes() from the cursor; slots and version stay. Errors: those of
  // `admit`, asked under the slice's lock, and then nothing was changed.
  absl::Status Assign(PayloadCursor& value, absl::FunctionRef<absl::Status()> admit);

  // The value and the slots (in the order of the rule) at one version. The value is leased, the
  // slots are copies.
  struct Snapshot {
    Tensor value;
    std::vector<Tensor> slots;
    std::shared_ptr<const void> lease;
  };
  Snapshot TakeSnapshot() const;

  // The opposite of TakeSnapshot; without slots those of the slice stay. The shapes are those of
  // the slice. Errors: those of `admit`, as for Assign.
  absl::Status Restore(const Tensor& value, const std::vector<Tensor>& slots,
                       absl::FunctionRef<absl::Status()> admit);

  // Returns when the update that is being applied, if any, has been.
  void Settle() const;

  // Blocks of the value and slots, with spares.
  size_t resident_bytes() const;

 private:
  VariableShard(SliceLayout layout, Tensor value, std::unique_ptr<UpdateKernel> kernel);

  void ApplyFloatsLocked(PayloadCursor& gradient, const UpdateContext& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename T>
  void AddLocked(PayloadCursor& gradient) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SliceLayout layout_;
  const Shape shape_;
  const size_t num_bytes_;
  const std::unique_ptr<UpdateKernel> kernel_;  // none for whole numbers

  mutable Mutex mutex_;
  ValueBuffer value_ ABSL_GUARDED_BY(mutex_);
  std::vector<Tensor> slots_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
