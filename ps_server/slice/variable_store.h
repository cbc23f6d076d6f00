#pragma once

// The slices that live on one parameter server or other home, by id. Slices are added but never
// removed, so a pointer to a slice is valid as long as the store lives.

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
    uint32_t ps = 0;  // the index of this parameter server
    // The limit of the bytes of all values and slots, without spare blocks; dynamic tables count
    // with their own limits.
    size_t resident_bytes_max = 0;
    FindVariableMemory find_memory = nullptr;  // null: only the processor's memory is available
  };
  explicit VariableStore(Options options) : options_(std::move(options)) {}

  using Layouts = google::protobuf::RepeatedPtrField<proto::VariableLayout>;
  // Makes the slices whose home is this task and that the store lacks, all of them or none, and
  // returns the ids of the new slices. `admit` is asked before the new slices become visible.
  // Errors: those of `admit`; INVALID_ARGUMENT from SlicesOf, for an id or a name that occurs
  // twice, or, with both layouts in the message, if a layout differs from that of the slice in the
  // store; RESOURCE_EXHAUSTED (CONFIGURATION) if the slices exceed the memory limit;
  // FAILED_PRECONDITION (CONFIGURATION) if a device's memory cannot be used.
  absl::StatusOr<std::vector<uint32_t>> Create(const Layouts& layouts,
                                               absl::FunctionRef<absl::Status()> admit);

  // Returns the slices with the given ids, in the order of the ids. Errors: NOT_FOUND that names a
  // missing id, with the class PS_LOST if the store is empty, since a parameter server that was
  // started again has no slices.
  absl::StatusOr<std::vector<VariableSlice*>> Find(absl::Span<const uint32_t> slice_ids) const;

  // Returns all slices by ascending id.
  std::vector<VariableSlice*> All() const;

 private:
  friend class InvariantsAfter<VariableStore>;

  // Aborts unless each slice stands under its id, and its home is this ps.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<SliceLayout>> MissingOf(const Layouts& layouts) const;
  absl::Status CheckMemory(absl::Span<const SliceLayout> missing) const;
  absl::StatusOr<std::unique_ptr<VariableSlice>> Make(const SliceLayout& slice) const;

  const Options options_;

  mutable Mutex mutex_;
  std::map<uint32_t, std::unique_ptr<VariableSlice>> slices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
