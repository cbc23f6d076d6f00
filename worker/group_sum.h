#pragma once

// Adds up what the members of a group computed, tensor by tensor, in buckets (bucket_plan.h). What
// a member adds is the sum over its own replicas, so that with as many replicas on each, and these
// a power of two, the order of all additions is the tree of join_replicas.h over all replicas:
// the same bits, whichever workers they are on (reduce_tree.h).

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"
#include "worker/gang_group.h"

namespace cohort {

struct GroupSummand {
  std::string name;  // for people, the same on all members
  Tensor value;
  // This member adds nothing; the value is there for its type and shape.
  bool neutral = false;
};

// How members talk.
struct GroupCommunication {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int64_t bytes_per_pack = 0;
  absl::Duration timeout = absl::InfiniteDuration();
};
GroupCommunication CommunicationOf(const proto::Communication& communication);

// The sums, in the order of the summands, on every member; with one summand for each there, of the
// same types and shapes. `done` runs once, on any thread. Errors: INVALID_ARGUMENT for a type that
// has no sum; those of the group (communicator.h).
using GroupSums = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
void SumOverGroup(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
                  std::vector<GroupSummand> summands, GroupSums done);

}  // namespace cohort
