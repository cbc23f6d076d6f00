#pragma once

// The gathering of tensors on all workers of a gang: of any types and shapes, which need not fit
// together, and any number from each.

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
  std::string name;         // shown to people, the same on all members
  std::vector<Tensor> own;  // this member's, of at most 13 axes
  size_t most = 1;          // the most that a member has, the same on all
  absl::Duration timeout = absl::InfiniteDuration();
};

// `done` gets those of all members in the order of ranks, in memory that they share. It runs once,
// in this call or on the executor. Errors: INVALID_ARGUMENT for a tensor of more axes; those of the
// group (communicator.h).
using GroupGathered = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
void GatherOverGroup(std::shared_ptr<GangGroup> group, GroupGather gather, GroupGathered done);

// The same number of numbers from each member, one after the other in the order of ranks.
struct NumbersOfMember {
  std::string name;
  std::vector<int64_t> own;
  absl::Duration timeout = absl::InfiniteDuration();
};
using GroupNumbers = absl::AnyInvocable<void(absl::StatusOr<std::vector<int64_t>>)>;
void GatherNumbers(const std::shared_ptr<GangGroup>& group, const NumbersOfMember& numbers,
                   GroupNumbers done);

}  // namespace cohort
