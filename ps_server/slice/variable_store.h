#pragma once

// The slices of one home (a parameter server, or a worker with its own copy), keyed by slice id.
// Slices are never removed, so a pointer to a slice is valid as long as the store exists.

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "google/protobuf/repeated_field.h"
#include "proto/plan.pb.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

// The slices of one home. Thread-safe.
class VariableStore {
 public:
  struct Options {
    uint32_t ps = 0;  // number of this home among the cluster's homes
    // The limit of the total bytes of values and slots, without spare blocks. For a dynamic table,
    // its own limit (RowPolicy::bytes_max) is counted.
    size_t resident_bytes_max = 0;
    // The function that finds a device's memory by the device's name; null if slices can lie only
    // in the processor's memory.
    FindVariableMemory find_memory = nullptr;
  };
  explicit VariableStore(Options options) : options_(std::move(options)) {}

  using Layouts = google::protobuf::RepeatedPtrField<proto::VariableLayout>;
  // Makes the slices of `layouts` that belong on this home and are not in the store yet: all of
  // them, or none after an error. Returns the ids of the new slices. `admit` checks the epoch just
  // before the new slices become visible. Errors: those of `admit`; INVALID_ARGUMENT from SlicesOf,
  // for an id or a name that occurs twice, or, with both layouts in the message, if a slice in the
  // store has another layout; RESOURCE_EXHAUSTED (CONFIGURATION) if the slices exceed the memory
  // limit; FAILED_PRECONDITION (CONFIGURATION) if a device's memory cannot be used.
  absl::StatusOr<std::vector<uint32_t>> Create(const Layouts& layouts,
                                               absl::FunctionRef<absl::Status()> admit);

  // Returns the slices with the given ids, in the order of `slice_ids`. Errors: NOT_FOUND that
  // names a missing id. The error's class is PS_LOST if the store is empty, as it is after a
  // restart of the task.
  absl::StatusOr<std::vector<VariableSlice*>> Find(absl::Span<const uint32_t> slice_ids) const;

  // Returns all slices in ascending order of their ids.
  std::vector<VariableSlice*> All() const;

 private:
  friend class InvariantsAfter<VariableStore>;

  // Aborts unless each slice is stored under its own id and belongs on this home.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<SliceLayout>> MissingOf(const Layouts& layouts) const;
  absl::Status CheckMemory(absl::Span<const SliceLayout> missing) const;
  absl::StatusOr<std::unique_ptr<VariableSlice>> Make(const SliceLayout& slice) const;

  const Options options_;

  mutable Mutex mutex_;
  std::map<uint32_t, std::unique_ptr<VariableSlice>> slices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
