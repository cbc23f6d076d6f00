#pragma once

// Adds up what the members of a group computed, tensor by tensor, in buckets (bucket_plan.h). A
// bucket starts when its summands are there and all buckets before it have started: in one order on
// all members, whichever summand is ready first on which, and while others are still computed. What
// a member adds is the sum over its own replicas, so that with as many replicas on each, and these
// a power of two, the order of all additions is the tree of join_replicas.h over all replicas:
// the same bits, whichever workers they are on (reduce_tree.h).
//
// The memory of the buckets is where summands are written and where the sums are; what travels in
// 16 bits has memory of its own meanwhile. It lives until the last call on it is done, also when
// nobody waits for the sums any more.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"
#include "worker/collective/plan/bucket_plan.h"
#include "worker/gang/gang_group.h"

namespace cohort {

// The part of a summand that is the same on all members.
struct SummandType {
  std::string name;  // shown to people
  DType dtype = DType::kFloat32;
  Shape shape;
  bool gradient = false;  // may travel rounded
};

// The way members talk.
struct GroupCommunication {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int64_t bytes_per_pack = 0;
  bool nccl = false;
  absl::Duration timeout = absl::InfiniteDuration();
  // The type in which float32 gradients travel: float32, float16 or bfloat16. A member's summand is
  // rounded once, the rounded ones are added up in float32, and the sum is rounded once more.
  DType gradient_dtype = DType::kFloat32;
  bool overlap = true;  // while the rest is computed; else after that. The same on all members
};
// Errors: INVALID_ARGUMENT for another gradient_dtype.
absl::StatusOr<GroupCommunication> CommunicationOf(const proto::Communication& communication);

// Thread-safe. Always owned by a shared_ptr: its calls hold it.
class GroupSum : public std::enable_shared_from_this<GroupSum> {
 public:
  using Sums = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;

  // Makes a sum of summands in the order of the model; the same on every member. Errors:
  // INVALID_ARGUMENT for a type that has no sum.
  static absl::StatusOr<std::shared_ptr<GroupSum>> Make(std::shared_ptr<GangGroup> group,
                                                        const GroupCommunication& communication,
                                                        std::vector<SummandType> summands);

  // Returns where this member's summand is to be written. Not initialised.
  Tensor Place(size_t summand) const;
  // Writes what adds nothing.
  void PlaceNeutral(size_t summand);

  // Notes that the summand is written and not touched any more. Called once for each, in any order.
  // Starts what can start. Errors: the error with which the group has ended, if a call has been
  // told so.
  absl::Status Ready(size_t summand);
  absl::Status status() const;

  // Gives `done` the sums, in the order of the summands, when all are ready. `done` runs once, in
  // this call or on any thread, and hands on longer work, as a communicator's. Errors: those of the
  // group (communicator.h).
  void Finish(Sums done);

 private:
  struct Location {  // where a summand lies
    size_t bucket = 0;
    size_t offset = 0;  // in bytes
  };

  GroupSum(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
           std::vector<SummandType> summands);
  void StartBucket(size_t index);
  void Widen(size_t index);
  void BucketDone(size_t index, const absl::Status& status);
  void GiveSums(Sums done, const absl::Status& status) const;

  const std::shared_ptr<GangGroup> group_;  // shared: lives until its calls are done
  const GroupCommunication communication_;
  const std::vector<SummandType> summands_;
  std::vector<Bucket> buckets_;                  // constant after construction, as the next three
  std::vector<Location> locations_;              // one per summand
  std::vector<std::shared_ptr<Buffer>> memory_;  // one per bucket; shared with the sums
  // one per bucket: what travels, if of another type
  std::vector<std::shared_ptr<Buffer>> rounded_;
  mutable Mutex mutex_;
  std::vector<size_t> missing_ ABSL_GUARDED_BY(mutex_);  // summands, by bucket
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;              // bucket to start
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;        // somebody is
  size_t left_ ABSL_GUARDED_BY(mutex_);                  // buckets that are not done
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  Sums done_ ABSL_GUARDED_BY(mutex_);
};

struct GroupSummand {
  std::string name;  // shown to people, the same on all members
  Tensor value;
  // Whether this member adds nothing; the value is there for its type and shape.
  bool neutral = false;
  bool gradient = false;  // see SummandType
};

// Sums of what is there: all buckets start at once. `done` and errors as of GroupSum.
void SumOverGroup(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
                  const std::vector<GroupSummand>& summands, GroupSum::Sums done);

}  // namespace cohort
