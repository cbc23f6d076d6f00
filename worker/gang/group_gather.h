#pragma once

// Gathers tensors on all workers of a gang. The tensors may have any types and shapes, and each
// worker may give another number of tensors.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tensor/tensor.h"
#include "worker/gang/gang_group.h"

namespace cohort {

struct GroupGather {
  std::string name;         // name of what is gathered, for messages; the same on all members
  std::vector<Tensor> own;  // the tensors that this member gives, of at most 13 axes each
  // An upper bound of the number of tensors that any member gives; the same value on all members.
  size_t most = 1;
  absl::Duration timeout = absl::InfiniteDuration();
};

// Gives `done` the tensors of all members, those of rank 0 first. All tensors lie in one buffer,
// which they share. `done` runs once, inside this call or on the executor. Errors: INVALID_ARGUMENT
// for a tensor of more than 13 axes; those of the group (communicator.h).
using GroupGathered = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
void GatherOverGroup(std::shared_ptr<GangGroup> group, GroupGather gather, GroupGathered done);

// The numbers that one member gives to GatherNumbers(). All members give equally many numbers.
struct NumbersOfMember {
  std::string name;
  std::vector<int64_t> own;
  absl::Duration timeout = absl::InfiniteDuration();
};
using GroupNumbers = absl::AnyInvocable<void(absl::StatusOr<std::vector<int64_t>>)>;
// Gives `done` the numbers of all members, those of rank 0 first. `done` runs once, as in
// GatherOverGroup(). Errors: those of the group (communicator.h).
void GatherNumbers(const std::shared_ptr<GangGroup>& group, const NumbersOfMember& numbers,
                   GroupNumbers done);

}  // namespace cohort
