#pragma once

// Gathers tensors on all workers of a gang. The tensors may have any types and shapes, which need
// not match, and each worker may have a different number of tensors.

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
  std::string name;         // name of the gathering for messages, the same on all members
  std::vector<Tensor> own;  // tensors of this member, with at most 13 axes each
  // The largest number of tensors of one member, the same value on all members.
  size_t most = 1;
  absl::Duration timeout = absl::InfiniteDuration();
};

// Gives `done` the tensors of all members in the order of ranks, in memory that the tensors share.
// `done` runs once, inside this call or on the executor. Errors: INVALID_ARGUMENT for a tensor of
// more than 13 axes; those of the group (communicator.h).
using GroupGathered = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
void GatherOverGroup(std::shared_ptr<GangGroup> group, GroupGather gather, GroupGathered done);

// The numbers that one member gives to GatherNumbers. Every member gives the same count of numbers.
struct NumbersOfMember {
  std::string name;
  std::vector<int64_t> own;
  absl::Duration timeout = absl::InfiniteDuration();
};
using GroupNumbers = absl::AnyInvocable<void(absl::StatusOr<std::vector<int64_t>>)>;
// Gives `done` the numbers of all members, one member after the other in the order of ranks.
void GatherNumbers(const std::shared_ptr<GangGroup>& group, const NumbersOfMember& numbers,
                   GroupNumbers done);

}  // namespace cohort
