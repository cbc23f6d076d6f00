#pragma once

// One slice of a variable with its slots. The slice's version is the number of applied pushes, and
// its applied set has the closures of these pushes (applied_set.h). One lock guards value, slots,
// version and applied set, so they always match: a push is applied only once, and a snapshot knows
// exactly which pushes it contains.
//
// A pull leases the current pages of the value without a copy. If a page is leased, a push writes
// the page's new content to other memory (paged_value.h). Each slice has its own lock, which a call
// holds only for one pass over the memory of the slice or of some rows. So pushes to different
// slices run at the same time, pushes to one row run one after another, and no reader sees a
// half-written row.
//
// A slice of a dynamic table has DynamicRows (dynamic_rows.h) instead of value and slots, and a
// snapshot copies its rows under the lock. In all other respects it behaves like other slices.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/runtime/update/sparse_update.h"
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

// The history of a slice: the number of pushes, their closures, the last change by an Assign
// call, and the last round.
struct SliceHistory {
  uint64_t version = 0;
  AppliedSet applied;
  uint64_t update = 0;  // the highest ValueChange::update that was applied
  uint64_t round = 0;   // number of the last synchronous round that was applied
};

// The content of a slice at one version; `slots` are in the order of the update rule's slots. Value
// and slots are leased: no memory is copied, and pushes can go on before the snapshot has been
// read. For a dynamic table, `table` is a copy of the rows, and value and slots are empty.
struct SliceSnapshot {
  Payload value;
  std::vector<Payload> slots;
  SliceHistory history;
  std::optional<SavedTable> table = std::nullopt;
};

// The state that a slice has after a restore. The tensors have the shapes of the slice.
struct SliceState {
  Tensor value;
  // Slots in the order of the rule's slots; if empty, the slice keeps its present slots.
  std::vector<Tensor> slots;
  // The rows of a dynamic table, with their values and slots. Rows that are given without slots get
  // slots with initial values.
  LoadedTable table;
  // The applied closures, version, update and round. If absent, the slice keeps its present
  // history.
  std::optional<SliceHistory> history;
};

// The parameters of a push to a slice, without the gradient.
struct SlicePush {
  double learning_rate = 0;
  uint64_t step = 1;
  uint64_t closure_id = 0;
  uint64_t round = 0;  // number of the push's synchronous round; 0 if the push belongs to no round
  uint32_t aggregate = 1;  // number of pushes that complete the push's round
  bool assign = false;     // whether the push brings a new value instead of a gradient
  // When the coordinator first sent the push's step, by the coordinator's clock.
  uint64_t time_ms = 0;
};

// The synchronous round of the step that reads a slice. Each coordinator counts its own rounds.
struct RoundRead {
  uint64_t round = 0;  // number of the round that the step belongs to; 0 if it belongs to none
  uint64_t coordinator = 0;  // incarnation of the coordinator that counts the rounds
};

// The outcome of a push to one slice.
struct AppliedPush {
  bool duplicate = false;
  uint64_t version_before = 0;
  bool kept = false;     // whether the slice keeps the push until the push's round is complete
  bool dropped = false;  // whether the slice ignored the push because its round was over
};

// One slice of a variable, with one lock for value, slots, version and applied set. Thread-safe.
class VariableSlice {
 public:
  // Makes a slice whose content comes from the layout's initializer; a slice of a dynamic table has
  // no rows at first. `memory` is the memory of the layout's device. Errors: INVALID_ARGUMENT from
  // the update rule or the initializer; those of `memory`.
  static absl::StatusOr<std::unique_ptr<VariableSlice>> Create(
      SliceLayout layout, std::shared_ptr<VariableMemory> memory);

  const SliceLayout& layout() const { return layout_; }
  const Shape& shape() const { return shape_; }
  size_t num_bytes() const { return num_bytes_; }

  struct Reading {
    Payload bytes;  // memory of the value's pages, each with a lease on its page
    uint64_t version = 0;
  };
  Reading Read() const { return ReadFor({}); }
  // Returns the value that a step of the given synchronous round reads: the value from before the
  // round, even if the round has been applied since. If a push of a later round has arrived, or if
  // the step belongs to no round, returns the current value.
  Reading ReadFor(const RoundRead& round) const;

  // Returns the present content of the slot number `slot` of the update rule.
  Reading ReadSlot(size_t slot) const;

  // Copies some rows to `out`, with the content that ReadFor would return. `rows` are row numbers
  // in the whole variable, all in this slice, or keys of a dynamic table; `out` has exactly the
  // size of these rows. Returns the version of the slice to which all copied rows belong.
  uint64_t ReadRowsFor(const RoundRead& round, absl::Span<const int64_t> rows,
                       absl::Span<std::byte> out) const;

  // A function that asks the push gate (push_gate.h) whether a push or request may go on. The slice
  // calls the function under its own lock, so that a fence or an epoch that began after the
  // request's arrival counts. If the gate returns an error, the slice's method returns the error
  // and changes nothing.
  using AskGate = absl::FunctionRef<absl::StatusOr<ClosureWindow>()>;

  // Reads num_bytes() of gradient from the cursor, and applies the gradient unless a push of the
  // same closure was applied before. A push of a synchronous round is kept until the round is
  // complete. Errors: those of the gate; RESOURCE_EXHAUSTED (TRANSIENT) if the applied set is full;
  // INVALID_ARGUMENT if the round has pushes of another kind (RoundPushes::Kind). After an error
  // the value and the slots are unchanged.
  absl::StatusOr<AppliedPush> Apply(PayloadCursor& gradient, const SlicePush& context,
                                    AskGate gate);
  // Applies gradients of some rows: reads from the cursor one row of gradient for each of `rows`,
  // which are row numbers in the whole variable, all in this slice, or keys of a dynamic table. The
  // update rule's sparse mode decides what happens to the slice's other rows. Errors: as for Apply.
  absl::StatusOr<AppliedPush> ApplyRows(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                                        const SlicePush& context, AskGate gate);

  // A change of the value by an Assign call. It leaves slots, version and applied closures
  // unchanged.
  struct ValueChange {
    proto::ChangeOp op = proto::CHANGE_SET;
    // Number of the change; a slice makes a change only if its number is higher than that of the
    // last change.
    uint64_t update = 0;
    bool all = true;
    // The changed rows by their numbers in the whole variable, all in this slice. Unused if `all`
    // is true.
    std::vector<int64_t> rows;
  };
  // Changes rows of the value one after another. The operand in the cursor has one row for each
  // changed row. Returns false, and changes nothing, if a change with the same or a higher number
  // was made before. Errors: those of the gate; the slice is then unchanged.
  absl::StatusOr<bool> Change(const ValueChange& change, PayloadCursor& operand, AskGate gate);

  // Replaces the slot number `slot` of the update rule by the next bytes of the cursor, as many as
  // the slot has. The value, the other slots, the version and the applied set stay unchanged.
  // `update` is a number as ValueChange::update. Returns false, and changes nothing, if a change
  // with the same or a higher number was made before. Errors: those of the gate; the slice is then
  // unchanged.
  absl::StatusOr<bool> SetSlot(size_t slot, uint64_t update, PayloadCursor& content, AskGate gate);

  // Replaces the value by the next num_bytes() of the cursor. Slots, version and applied set stay
  // unchanged. `admit` checks the request under the slice's lock. Errors: those of `admit`; the
  // slice is then unchanged.
  absl::Status Assign(PayloadCursor& value, absl::FunctionRef<absl::Status()> admit);
  // CheckHasAverage checks that the slice's optimizer keeps a moving average of the value;
  // AssignAverage replaces the value by this average. Errors: INVALID_ARGUMENT that names the slice
  // if there is no average; those of `admit`.
  absl::Status CheckHasAverage() const;
  absl::Status AssignAverage(absl::FunctionRef<absl::Status()> admit);

  // Takes a snapshot of the slice's present content. Errors: those of the gate.
  absl::StatusOr<SliceSnapshot> TakeSnapshot(AskGate gate);

  // Returns the state that a new slice with this layout has. Errors: INVALID_ARGUMENT from the
  // initializer.
  static absl::StatusOr<SliceState> InitialState(const SliceLayout& layout);
  // Replaces the slice's content by `state`. Errors: those of the gate, which leave the slice
  // unchanged.
  absl::Status Restore(const SliceState& state, AskGate gate);

  // Waits until a push that is being applied is complete. Removes the closures below the watermark
  // from the applied set, and returns the number of intervals of closure ids that remain in the
  // set. Errors: those of the gate.
  absl::StatusOr<size_t> Settle(AskGate gate);

  // Returns the bytes that the slice occupies: all pages with their spare blocks, the copies of
  // rows from before the last round, and for a dynamic table its rows and index.
  size_t resident_bytes() const;
  // Returns the memory use of the rows of a dynamic table; all fields are zero for any other slice.
  RowTableUse table_use() const;
  // Returns the total number of bytes that were copied because a push changed rows of a page while
  // the page was leased.
  uint64_t copied_bytes() const;

 private:
  // The widths of the slice's rows and slots: the number of elements of the value in a row (`row`)
  // and, for each slot, the number of elements of the value that share one element of the slot
  // (`slots`). The latter is 1, or `row` for a slot with one element per row. `largest` is the
  // largest number in `slots`, at least 1.
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
  // Calls the gate and adds the push's closure to the applied set. Returns false if the set already
  // had the closure.
  absl::StatusOr<bool> AdmitLocked(const SlicePush& context, AskGate gate)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Applies the push's round if this push completes the round, else keeps the push. A push without
  // `rows` changes all rows.
  absl::StatusOr<AppliedPush> ApplyInRoundLocked(
      const std::optional<absl::Span<const int64_t>>& rows, PayloadCursor& gradient,
      const SlicePush& context, AskGate gate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the outcome of a push whose round is over, or which is already kept. Returns nullopt if
  // the push is to be kept or completes its round.
  std::optional<AppliedPush> LateOrRepeatedLocked(const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyRoundLocked(const RoundPushes::Joined& pushes, PayloadCursor& elements,
                        const SlicePush& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetRoundsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReadsBeforeLocked(const RoundRead& round) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Copies the rows `rows` to `out`. In a dynamic table, rows that have expired by time `at` are
  // read as new rows.
  void ReadRowsLocked(absl::Span<const int64_t> rows, absl::Time at,
                      absl::Span<std::byte> out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t RowBytes() const { return slot_widths_.row * ElementSize(layout_.dtype); }
  // Returns the position within the slice of the row with the number `row` in the whole variable.
  size_t PlaceOf(int64_t row) const { return static_cast<size_t>(row - layout_.rows.begin); }

  UpdateStep StepOf(const SlicePush& context) const;
  // Update the value and the slots by the update rule, for all rows (UpdateAllLocked) or some rows
  // (UpdateRowsLocked).
  void UpdateAllLocked(PayloadCursor& gradient, const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                        const SlicePush& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyFloatsLocked(PayloadCursor& gradient, const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyFloatRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                            const SlicePush& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Apply a gradient of all rows, or of some rows, under a rule that needs the whole variable.
  void ApplyWholeLocked(PayloadCursor& gradient, const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyWholeRowsLocked(const MergedRows& gradients, const SlicePush& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename T>
  void AddLocked(PayloadCursor& gradient) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename T>
  void AddRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SliceLayout layout_;
  // Memory of the layout's device; may be shared with other slices.
  const std::shared_ptr<VariableMemory> memory_;
  const Shape shape_;
  const size_t num_bytes_;
  // The update rule's kernel; null for integer types and dynamic tables.
  const std::unique_ptr<UpdateKernel> kernel_;
  const SlotWidths slot_widths_;
  const size_t page_rows_;

  mutable Mutex mutex_;
  // The rows of a slice of a dynamic table; null for any other slice.
  const std::unique_ptr<DynamicRows> rows_ ABSL_PT_GUARDED_BY(mutex_);
  PagedValue value_ ABSL_GUARDED_BY(mutex_);
  std::vector<PagedValue> slots_ ABSL_GUARDED_BY(mutex_);
  uint64_t copied_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  SliceHistory history_ ABSL_GUARDED_BY(mutex_);
  // The kept pushes of the round that is not complete yet.
  RoundPushes round_ ABSL_GUARDED_BY(mutex_);
  // The value from before the last synchronous round that was applied.
  ValueBefore before_ ABSL_GUARDED_BY(mutex_);
  // The incarnation of the coordinator that counts the closure ids in history_.
  uint64_t history_of_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
