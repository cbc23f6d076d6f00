#include "ps_server/slice/variable_store.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/invariants.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

// Returns the layouts of the slices that belong on this home and are not in the store yet. Errors:
// those of SlicesOf; INVALID_ARGUMENT for an id or a name that occurs twice, or if a slice in the
// store has another layout or home.
absl::StatusOr<std::vector<SliceLayout>> VariableStore::MissingOf(const Layouts& layouts) const {
  std::set<std::string> names;
  std::set<uint32_t> ids;
  std::vector<SliceLayout> missing;
  for (const proto::VariableLayout& layout : layouts) {
    ASSIGN_OR_RETURN(const std::vector<SliceLayout> slices, SlicesOf(layout));
    if (!names.insert(layout.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", layout.name(), "' occurs twice"));
    }
    for (const SliceLayout& slice : slices) {
      if (!ids.insert(slice.slice_id).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("slice id ", slice.slice_id, " of '", layout.name(), "' occurs twice"));
      }
      MutexLock lock(mutex_);
      const auto held = slices_.find(slice.slice_id);
      const bool here = slice.mirrored || slice.ps == options_.ps;
      if (held == slices_.end()) {
        if (here) missing.push_back(slice);
      } else if (!here || !SameLayout(held->second->layout(), slice)) {
        return absl::InvalidArgumentError(
            absl::StrCat("ps:", options_.ps, " holds ", held->second->layout().ToString(),
                         "; asked for is ", slice.ToString(), " on ps:", slice.ps,
                         "; a variable keeps the layout with which it was made"));
      }
    }
  }
  return missing;
}

absl::Status VariableStore::CheckMemory(absl::Span<const SliceLayout> missing) const {
  size_t bytes = 0;
  for (const VariableSlice* shard : All()) bytes += shard->layout().resident_bytes();
  for (const SliceLayout& slice : missing) {
    const size_t more = slice.resident_bytes();
    // The check subtracts from the limit, because the sum of the slices' sizes, which a peer sent,
    // could overflow.
    if (more > options_.resident_bytes_max || bytes > options_.resident_bytes_max - more) {
      return MakeError(
          absl::StatusCode::kResourceExhausted,
          absl::StrCat("no room for ", slice.ToString(), ": it needs ", more,
                       " bytes with its slots, ", bytes, " of ", options_.resident_bytes_max,
                       " are taken; use more parameter servers"),
          proto::CONFIGURATION);
    }
    bytes += more;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<VariableSlice>> VariableStore::Make(const SliceLayout& slice) const {
  if (slice.device.empty()) return VariableSlice::Create(slice, HostMemory());
  const auto in_memory = [&]() -> absl::StatusOr<std::unique_ptr<VariableSlice>> {
    if (options_.find_memory == nullptr) {
      return absl::FailedPreconditionError(
          "this home keeps variables in its processor's memory: name no device for them");
    }
    ASSIGN_OR_RETURN(std::shared_ptr<VariableMemory> memory, options_.find_memory(slice.device));
    return VariableSlice::Create(slice, std::move(memory));
  };
  auto made = in_memory();
  if (made.ok()) return made;
  // The error class is CONFIGURATION, because the job's settings name a device that cannot hold the
  // variable.
  return MakeError(made.status().code(),
                   absl::StrCat("variable '", slice.variable, "' is to be in the memory of ",
                                slice.device, ": ", made.status().message()),
                   proto::CONFIGURATION);
}

absl::StatusOr<std::vector<uint32_t>> VariableStore::Create(
    const Layouts& layouts, absl::FunctionRef<absl::Status()> admit) {
  ASSIGN_OR_RETURN(const std::vector<SliceLayout> missing, MissingOf(layouts));
  RETURN_IF_ERROR(CheckMemory(missing));
  // The slices are made without holding the store's lock, because their initializers take long.
  std::vector<std::unique_ptr<VariableSlice>> made;
  for (const SliceLayout& slice : missing) {
    ASSIGN_OR_RETURN(std::unique_ptr<VariableSlice> shard, Make(slice));
    made.push_back(std::move(shard));
  }
  // The epoch is checked (`admit`) after the initializers have run: if the epoch has ended by then,
  // no new slice becomes visible.
  RETURN_IF_ERROR(admit());
  std::vector<uint32_t> created;
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  for (std::unique_ptr<VariableSlice>& shard : made) {
    const uint32_t id = shard->layout().slice_id;
    // If a concurrent Create has already added a slice with this id, the first slice stays in the
    // store.
    if (slices_.emplace(id, std::move(shard)).second) created.push_back(id);
  }
  return created;
}

absl::StatusOr<std::vector<VariableSlice*>> VariableStore::Find(
    absl::Span<const uint32_t> slice_ids) const {
  std::vector<VariableSlice*> found;
  found.reserve(slice_ids.size());
  MutexLock lock(mutex_);
  for (const uint32_t id : slice_ids) {
    const auto shard = slices_.find(id);
    // If the store is empty, this task has probably restarted and lost its slices, so the error
    // class is PS_LOST.
    if (shard == slices_.end()) {
      return MakeError(absl::StatusCode::kNotFound,
                       absl::StrCat("slice ", id, " is not on ps:", options_.ps, ", which holds ",
                                    slices_.size(), " slices"),
                       slices_.empty() ? proto::PS_LOST : proto::APPLICATION);
    }
    found.push_back(shard->second.get());
  }
  return found;
}

std::vector<VariableSlice*> VariableStore::All() const {
  MutexLock lock(mutex_);
  std::vector<VariableSlice*> all;
  all.reserve(slices_.size());
  for (const auto& [id, shard] : slices_) all.push_back(shard.get());
  return all;
}

void VariableStore::CheckInvariants() const {
  if (slices_.size() > kInvariantWalkMax) return;
  for (const auto& [id, slice] : slices_) {
    COHORT_CHECK(slice != nullptr && slice->layout().slice_id == id, "a slice stands under its id");
    COHORT_CHECK(slice->layout().mirrored || slice->layout().ps == options_.ps,
                 "a slice lives at its home");
  }
}

}  // namespace cohort
