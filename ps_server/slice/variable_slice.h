#pragma once

// One slice of a variable with its slots. The slice's version is the number of pushes that were
// applied, and its applied set has the closures of these pushes (applied_set.h). One lock guards
// value, slots, version and applied set, so they always belong together: a push is applied once,
// and a snapshot knows exactly which pushes it contains.
//
// A pull leases the current pages without a copy; a push that arrives while a page is leased writes
// the new page beside the leased one (paged_value.h). Each slice has its own lock, held only for
// one pass over the memory of the slice or of some rows. So pushes to different slices run at the
// same time, pushes to one row come one after the other, and no reader sees a row half written.
//
// A slice of a dynamic table has DynamicRows (dynamic_rows.h) in the place of value and slots, and
// its snapshot copies the rows under the lock. In all else it behaves as any slice.

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

// The number of pushes that the value and the slots contain, and the closures of these pushes.
struct SliceHistory {
  uint64_t version = 0;
  AppliedSet applied;
  uint64_t update = 0;  // number of the last change by an update
  uint64_t round = 0;   // number of the last applied round
};

// The value and the slots (in the order of the rule's slots) of a slice at one version. They are
// leased: nothing is copied, and no push waits for the reader. For a dynamic table, `table` is a
// copy that has value and slots.
struct SliceSnapshot {
  Payload value;
  std::vector<Payload> slots;
  SliceHistory history;
  std::optional<SavedTable> table = std::nullopt;
};

// The state that a restore gives to a slice; its shapes are those of the slice.
struct SliceState {
  Tensor value;
  std::vector<Tensor> slots;  // empty: the slice keeps its own slots
  // The rows of a dynamic table, with value and slots. If the rows come without slots, the slots
  // start from their initial values.
  LoadedTable table;
  // The applied closures, version and round that the slice takes over; empty: the slice keeps
  // those that it has.
  std::optional<SliceHistory> history;
};

// The parameters of a push apart from its gradient.
struct SlicePush {
  double learning_rate = 0;
  uint64_t step = 1;
  uint64_t closure_id = 0;
  uint64_t round = 0;      // 0: the push is applied by itself
  uint32_t aggregate = 1;  // number of pushes that the round applies as one
  bool assign = false;     // whether a round's push brings new values instead of gradients
  uint64_t time_ms = 0;    // when the push's step was first sent, by the coordinator's clock
};

// The round whose step reads a slice. Each coordinator counts its own rounds.
struct RoundRead {
  uint64_t round = 0;        // 0: the step belongs to no round
  uint64_t coordinator = 0;  // incarnation of the coordinator that counts the round
};

// The outcome of a push to one slice.
struct AppliedPush {
  bool duplicate = false;
  uint64_t version_before = 0;
  bool kept = false;     // whether the push is kept until its round has enough pushes
  bool dropped = false;  // whether the round was applied without the push
};

// One slice of a variable: value, slots, version and applied set under one lock. Thread-safe.
class VariableSlice {
 public:
  // Makes a slice in `memory`, the memory of the layout's device, and fills it by the initializer;
  // a dynamic table starts empty. Errors: INVALID_ARGUMENT from the rule or the initializer; those
  // of the memory.
  static absl::StatusOr<std::unique_ptr<VariableSlice>> Create(
      SliceLayout layout, std::shared_ptr<VariableMemory> memory);

  const SliceLayout& layout() const { return layout_; }
  const Shape& shape() const { return shape_; }
  size_t num_bytes() const { return num_bytes_; }

  struct Reading {
    Payload bytes;  // hold their own leases on the pages
    uint64_t version = 0;
  };
  Reading Read() const { return ReadFor({}); }
  // Returns the value that a step of a round reads: the value before the round until a push of a
  // later round has arrived, then the current value.
  Reading ReadFor(const RoundRead& round) const;

  // Copies rows, as ReadFor reads them, into `out`, which has exactly the rows' size. `rows` are
  // row numbers in the whole variable, all in this slice, or keys of a dynamic table. Returns the
  // version that all copied rows have.
  uint64_t ReadRowsFor(const RoundRead& round, absl::Span<const int64_t> rows,
                       absl::Span<std::byte> out) const;

  // The check of a call by the push gate. It is made under the slice's lock, so that a fence or an
  // epoch that arrived after the call is seen. An error of the gate ends the call before anything
  // is changed.
  using AskGate = absl::FunctionRef<absl::StatusOr<ClosureWindow>()>;

  // Takes num_bytes() of gradient from the cursor, and applies it unless a push of the same closure
  // was applied before. A duplicate push is answered only after the first one has been applied.
  // Errors: those of the gate; RESOURCE_EXHAUSTED (TRANSIENT) if the applied set is full. After an
  // error the slice is unchanged.
  absl::StatusOr<AppliedPush> Apply(PayloadCursor& gradient, const SlicePush& context,
                                    AskGate gate);
  // Applies a gradient of some rows and takes one row of gradient for each of `rows`: row numbers
  // in the whole variable, all in this slice, or keys. The rule's sparse mode decides what happens
  // to the slice's other rows.
  absl::StatusOr<AppliedPush> ApplyRows(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                                        const SlicePush& context, AskGate gate);

  // A change of the value that is not a push: slots, version and applied closures stay as they are.
  struct ValueChange {
    proto::ChangeOp op = proto::CHANGE_SET;
    uint64_t update = 0;  // number of the update that makes the change
    bool all = true;
    // Row numbers in the whole variable, all in this slice; unused if `all` is true.
    std::vector<int64_t> rows;
  };
  // Changes the value's rows one after another by the operand, which has one row in the cursor for
  // each row of the change. Returns false, and changes nothing, if this change or one with a higher
  // number was made before. Errors: those of the gate; the slice is then unchanged.
  absl::StatusOr<bool> Change(const ValueChange& change, PayloadCursor& operand, AskGate gate);

  // Replaces the value by num_bytes() from the cursor; slots, version and applied set stay as they
  // are. Errors: those of `admit`, which is asked under the slice's lock; the slice is then
  // unchanged.
  absl::Status Assign(PayloadCursor& value, absl::FunctionRef<absl::Status()> admit);
  // Check that the slice has a moving average (CheckHasAverage), and replace the value by that
  // average (AssignAverage). Errors: INVALID_ARGUMENT that names the slice if it has no average;
  // those of `admit`.
  absl::Status CheckHasAverage() const;
  absl::Status AssignAverage(absl::FunctionRef<absl::Status()> admit);

  // Takes a snapshot of the slice. Errors: those of the gate.
  absl::StatusOr<SliceSnapshot> TakeSnapshot(AskGate gate);

  // Returns the state that a new slice of this layout starts in. Errors: INVALID_ARGUMENT from the
  // initializer.
  static absl::StatusOr<SliceState> InitialState(const SliceLayout& layout);
  // Replaces the slice's state. Errors: those of the gate.
  absl::Status Restore(const SliceState& state, AskGate gate);

  // Returns after the update that is being applied, if any, is complete. Forgets the closures below
  // the watermark and returns the number of closure intervals that remain. Errors: those of the
  // gate.
  absl::StatusOr<size_t> Settle(AskGate gate);

  // Returns the bytes of all pages and their spare blocks; for a dynamic table, the bytes of its
  // rows and index.
  size_t resident_bytes() const;
  // Returns the memory that a dynamic table uses, or zeros for any other slice.
  RowTableUse table_use() const;
  // Returns the total bytes of the pages that were copied because some of their rows changed while
  // they were leased.
  uint64_t copied_bytes() const;

 private:
  // The number of elements in a row (`row`), and for each slot the number of value elements that
  // share one element of the slot: 1, or the row's elements for a slot with one element per row.
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
  // Returns false if a push of the same closure was applied before.
  absl::StatusOr<bool> AdmitLocked(const SlicePush& context, AskGate gate)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps a round's push, or applies the round if it is complete with this push. Without `rows` the
  // push is one of all rows.
  absl::StatusOr<AppliedPush> ApplyInRoundLocked(
      const std::optional<absl::Span<const int64_t>>& rows, PayloadCursor& gradient,
      const SlicePush& context, AskGate gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the outcome of a push that its round no longer needs or has already; otherwise nothing.
  std::optional<AppliedPush> LateOrRepeatedLocked(const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyRoundLocked(const RoundPushes::Joined& pushes, PayloadCursor& elements,
                        const SlicePush& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetRoundsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReadsBeforeLocked(const RoundRead& round) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Copies rows to `out`; rows of a dynamic table that have expired by time `at` are read as new
  // rows.
  void ReadRowsLocked(absl::Span<const int64_t> rows, absl::Time at,
                      absl::Span<std::byte> out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t RowBytes() const { return slot_widths_.row * ElementSize(layout_.dtype); }
  // Returns a row's position in the slice; `row` is its number in the whole variable.
  size_t PlaceOf(int64_t row) const { return static_cast<size_t>(row - layout_.rows.begin); }

  UpdateStep StepOf(const SlicePush& context) const;
  // Update the value and the slots by the rule: all rows, or some rows.
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
  const std::shared_ptr<VariableMemory> memory_;  // may be shared with other slices
  const Shape shape_;
  const size_t num_bytes_;
  const std::unique_ptr<UpdateKernel> kernel_;  // null for integer types and dynamic tables
  const SlotWidths slot_widths_;
  const size_t page_rows_;

  mutable Mutex mutex_;
  // Set only for a dynamic table.
  const std::unique_ptr<DynamicRows> rows_ ABSL_PT_GUARDED_BY(mutex_);
  PagedValue value_ ABSL_GUARDED_BY(mutex_);
  std::vector<PagedValue> slots_ ABSL_GUARDED_BY(mutex_);
  uint64_t copied_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  SliceHistory history_ ABSL_GUARDED_BY(mutex_);
  RoundPushes round_ ABSL_GUARDED_BY(mutex_);   // the pushes of the round that waits for more
  ValueBefore before_ ABSL_GUARDED_BY(mutex_);  // the value before the last applied round
  // The coordinator incarnation whose closure ids the history has.
  uint64_t history_of_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
