#pragma once

// One slice of a variable with its slots. Its version is the number of pushes that were applied;
// which closures' pushes those were lies beside it (applied_set.h), under the same lock, so value,
// slots, version and applied set always belong together: a push is applied once, and a snapshot
// knows exactly what is in it. A pull leases the current pages without a copy; a push that arrives
// while a page is leased writes the new one beside it (paged_value.h). One lock per slice, held
// only for a memory pass over the slice or over some rows, so pushes to different slices run at the
// same time, pushes to one row come one after the other, and no reader sees a row half written. A
// slice of a dynamic table has rows (dynamic_rows.h) in the place of value and slots, and its
// snapshot copies them under the lock; all else is the same.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/runtime/update/update_kernel.h"
#include "common/runtime/update/variable_memory.h"
#include "common/tensor/tensor.h"
#include "common/wire/message.h"
#include "proto/ps.pb.h"
#include "ps_server/slice/applied_set.h"
#include "ps_server/slice/dynamic_rows.h"
#include "ps_server/slice/paged_value.h"
#include "ps_server/slice/payload_cursor.h"
#include "ps_server/slice/push_gate.h"
#include "ps_server/slice/round_pushes.h"
#include "ps_server/slice/slice_layout.h"
#include "ps_server/slice/value_before.h"

namespace cohort {

// The number of pushes in the value and the slots, and their closures.
struct SliceHistory {
  uint64_t version = 0;
  AppliedSet applied;
  uint64_t update = 0;  // number of the last change
  uint64_t round = 0;   // the last one that was applied
};

// The value and the slots (in the order of the rule) at one version, leased: nothing is copied, and
// no push waits for the reader. A dynamic table is a copy, and stands for both.
struct SliceSnapshot {
  Payload value;
  std::vector<Payload> slots;
  SliceHistory history;
  std::optional<SavedTable> table = std::nullopt;
};

// The state that a restore brings; the shapes are those of the slice.
struct SliceState {
  Tensor value;
  std::vector<Tensor> slots;  // empty: those of the slice stay
  // The value and slots of a dynamic table. Without slots those of the rows begin anew.
  LoadedTable table;
  std::optional<SliceHistory> history;  // empty: the slice's own stays
};

// A push's parameters beside its gradient.
struct SlicePush {
  double learning_rate = 0;
  uint64_t step = 1;
  uint64_t closure_id = 0;
  uint64_t round = 0;      // 0: applied by itself
  uint32_t aggregate = 1;  // pushes of the round, which are applied as one
  bool assign = false;     // in a round: the value itself
  uint64_t time_ms = 0;    // when the push's step was first sent, by the coordinator's clock
};

// The round for which a step reads. A coordinator counts its rounds anew.
struct RoundRead {
  uint64_t round = 0;        // 0: of none
  uint64_t coordinator = 0;  // the coordinator's incarnation
};

// The outcome of a push in one slice.
struct AppliedPush {
  bool duplicate = false;
  uint64_t version_before = 0;
  bool kept = false;     // kept for its round, which waits for more
  bool dropped = false;  // the round was applied without it
};

// Thread-safe.
class VariableSlice {
 public:
  // Makes a slice filled by the initializer, in `memory`, that of the layout's device; a dynamic
  // table is empty. Errors: INVALID_ARGUMENT from rule and initializer; those of the memory.
  static absl::StatusOr<std::unique_ptr<VariableSlice>> Create(
      SliceLayout layout, std::shared_ptr<VariableMemory> memory);

  const SliceLayout& layout() const { return layout_; }
  const Shape& shape() const { return shape_; }
  size_t num_bytes() const { return num_bytes_; }

  struct Reading {
    Payload bytes;  // own leases
    uint64_t version = 0;
  };
  Reading Read() const { return ReadFor({}); }
  // Returns what a step of a round reads: the value before the round, until a push of a later round
  // came.
  Reading ReadFor(const RoundRead& round) const;

  // Copies rows as ReadFor reads them into `out`, which has room for just these: rows by their
  // numbers in the whole variable, all in this slice, or rows of a dynamic table by their keys.
  // Returns the version that all of them have.
  uint64_t ReadRowsFor(const RoundRead& round, absl::Span<const int64_t> rows,
                       absl::Span<std::byte> out) const;

  // Asked under the slice's lock, so that a fence or an epoch that came in between is seen. Its
  // error ends the call, and nothing was changed.
  using AskGate = absl::FunctionRef<absl::StatusOr<ClosureWindow>()>;

  // Takes num_bytes() of gradient from the cursor, and applies it unless the closure's push was
  // applied before. A duplicate is answered only after the first has been applied. Errors: those of
  // the gate; RESOURCE_EXHAUSTED (TRANSIENT) when the applied set is full, and then nothing was
  // changed.
  absl::StatusOr<AppliedPush> Apply(PayloadCursor& gradient, const SlicePush& context,
                                    AskGate gate);
  // Applies a gradient of some rows, by their numbers in the whole variable or their keys, all in
  // this slice: takes a row of gradient for each. The rule's sparse mode decides what happens to
  // the other rows.
  absl::StatusOr<AppliedPush> ApplyRows(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                                        const SlicePush& context, AskGate gate);

  // A change that is no push: slots, version and applied closures stay.
  struct ValueChange {
    proto::ChangeOp op = proto::CHANGE_SET;
    uint64_t update = 0;  // number of the update
    bool all = true;
    std::vector<int64_t> rows;  // rows of the whole variable, unless all; they are in this slice
  };
  // Takes the operand from the cursor, a row for each of the change's, and changes them one after
  // another, unless the change of this number, or a later one, was made before: false. Errors:
  // those of the gate, and then nothing was changed.
  absl::StatusOr<bool> Change(const ValueChange& change, PayloadCursor& operand, AskGate gate);

  // Replaces the value by num_bytes() from the cursor; slots, version and applied set stay. Errors:
  // those of `admit`, asked under the slice's lock, and then nothing was changed.
  absl::Status Assign(PayloadCursor& value, absl::FunctionRef<absl::Status()> admit);
  // Assigns the moving average, which the slice must have. Errors: INVALID_ARGUMENT naming a slice
  // without one.
  absl::Status CheckHasAverage() const;
  absl::Status AssignAverage(absl::FunctionRef<absl::Status()> admit);

  // Errors: those of the gate.
  absl::StatusOr<SliceSnapshot> TakeSnapshot(AskGate gate);

  // Returns the state in which the slice was made. Errors: INVALID_ARGUMENT from the initializer.
  static absl::StatusOr<SliceState> InitialState(const SliceLayout& layout);
  // Errors: those of the gate.
  absl::Status Restore(const SliceState& state, AskGate gate);

  // Returns when the update that is being applied, if any, has been, and forgets closures that have
  // ended. The intervals of closures that are left. Errors: those of the gate.
  absl::StatusOr<size_t> Settle(AskGate gate);

  // Returns the bytes of pages with spares, or of a dynamic table's rows and index.
  size_t resident_bytes() const;
  // Returns zeros for a slice that is not of a dynamic table.
  RowTableUse table_use() const;
  // Returns the bytes of all pages that were leased when some of their rows changed.
  uint64_t copied_bytes() const;

 private:
  // Elements of a row, and of the value for one of each slot: 1, or a row for a slot per row.
  struct SlotWidths {
    size_t row = 1;
    size_t largest = 1;
    std::vector<size_t> slots;
  };

  struct Parts {
    std::shared_ptr<VariableMemory> memory;
    SliceState initial;
    std::unique_ptr<UpdateKernel> kernel;
    std::unique_ptr<DynamicRows> rows;
  };
  VariableSlice(SliceLayout layout, Parts parts);

  static SlotWidths WidthsOf(const SliceLayout& layout);

  void EnterLocked(const ClosureWindow& window) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns false if the closure's push was applied before.
  absl::StatusOr<bool> AdmitLocked(const SlicePush& context, AskGate gate)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps a push of a round, of all rows if there are no `rows`, or applies the round if it is
  // whole.
  absl::StatusOr<AppliedPush> ApplyInRoundLocked(
      const std::optional<absl::Span<const int64_t>>& rows, PayloadCursor& gradient,
      const SlicePush& context, AskGate gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the outcome of a push that its round does not need any more, or already has.
  std::optional<AppliedPush> LateOrRepeatedLocked(const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyRoundLocked(const RoundPushes::Joined& pushes, PayloadCursor& elements,
                        const SlicePush& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetRoundsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReadsBeforeLocked(const RoundRead& round) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads rows; `at` says which rows of a dynamic table have expired.
  void ReadRowsLocked(absl::Span<const int64_t> rows, absl::Time at,
                      absl::Span<std::byte> out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t RowBytes() const { return slot_widths_.row * ElementSize(layout_.dtype); }
  // Returns the place in the slice of a row of the whole variable.
  size_t PlaceOf(int64_t row) const { return static_cast<size_t>(row - layout_.rows.begin); }

  UpdateStep StepOf(const SlicePush& context) const;
  // Update by the rule.
  void UpdateAllLocked(PayloadCursor& gradient, const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                        const SlicePush& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyFloatsLocked(PayloadCursor& gradient, const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyFloatRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                            const SlicePush& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename T>
  void AddLocked(PayloadCursor& gradient) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename T>
  void AddRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SliceLayout layout_;
  const std::shared_ptr<VariableMemory> memory_;  // shared with other slices
  const Shape shape_;
  const size_t num_bytes_;
  const std::unique_ptr<UpdateKernel> kernel_;  // null for whole numbers and dynamic tables
  const SlotWidths slot_widths_;
  const size_t page_rows_;

  mutable Mutex mutex_;
  const std::unique_ptr<DynamicRows> rows_ ABSL_PT_GUARDED_BY(mutex_);  // set for a dynamic table
  PagedValue value_ ABSL_GUARDED_BY(mutex_);
  std::vector<PagedValue> slots_ ABSL_GUARDED_BY(mutex_);
  uint64_t copied_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  SliceHistory history_ ABSL_GUARDED_BY(mutex_);
  RoundPushes round_ ABSL_GUARDED_BY(mutex_);   // the pushes of a round that waits for more
  ValueBefore before_ ABSL_GUARDED_BY(mutex_);  // the last round that was applied
  // The coordinator incarnation whose closure ids are in the history.
  uint64_t history_of_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
