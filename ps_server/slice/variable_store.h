#pragma once

// The slices that live on one ps, by id. Slices are only added, never removed, so a pointer to one
// is good as long as the store lives.

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

// Thread-safe.
class VariableStore {
 public:
  struct Options {
    uint32_t ps = 0;  // index of this ps
    // The limit of all values and slots, without spare blocks, and of dynamic tables' own limits.
    size_t resident_bytes_max = 0;
    FindVariableMemory find_memory = nullptr;  // null: the processor's alone
  };
  explicit VariableStore(Options options) : options_(std::move(options)) {}

  using Layouts = google::protobuf::RepeatedPtrField<proto::VariableLayout>;
  // Makes the slices whose home is this ps and that are not here yet, all or none, and returns the
  // ids of the new ones. `admit` is asked before they become visible. Errors: those of `admit`;
  // INVALID_ARGUMENT from SlicesOf, for an id or a name that occurs twice, or printing both layouts
  // if one differs from the slice held; RESOURCE_EXHAUSTED (CONFIGURATION) if they do not fit into
  // the memory limit; FAILED_PRECONDITION (CONFIGURATION) for the memory of a device that cannot be
  // used.
  absl::StatusOr<std::vector<uint32_t>> Create(const Layouts& layouts,
                                               absl::FunctionRef<absl::Status()> admit);

  // Returns the slices in the order of the ids. Errors: NOT_FOUND naming the id, of class PS_LOST
  // if the store is empty: a ps that was started again knows no slice.
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
  std::map<uint32_t, std::unique_ptr<VariableSlice>> shards_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
