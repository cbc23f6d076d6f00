#pragma once

// Adds up the values that the members of a group have computed, tensor by tensor, in buckets
// (bucket_plan.h). A bucket starts when all its summands are ready and all buckets before it have
// started. So all members start buckets in one order, whichever summand is ready first on a member,
// and while other summands are still being computed. A member adds the sum over its own replicas.
// If all members have the same number of replicas, and this number is a power of two, the order of
// all additions is the tree of join_replicas.h over all replicas: the sum has the same bits,
// however replicas are spread over workers (reduce_tree.h).
//
// Summands are written to the memory of the buckets, and the sums appear in the same memory. Values
// that travel in 16 bits have separate memory during the call. The memory lives until the last call
// on it is done, even if no caller waits for the sums any more.

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

// The properties of a summand that are the same on all members.
struct SummandType {
  std::string name;  // name of the summand, for messages
  DType dtype = DType::kFloat32;
  Shape shape;
  bool gradient = false;  // true for a gradient, which may be rounded for its travel
};

// The settings for the communication between the members of a group.
struct GroupCommunication {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int64_t bytes_per_pack = 0;
  bool nccl = false;
  absl::Duration timeout = absl::InfiniteDuration();
  // The type in which float32 gradients travel: float32, float16 or bfloat16. A member's summand is
  // rounded once, the rounded summands are added up in float32, and the sum is rounded once more.
  DType gradient_dtype = DType::kFloat32;
  // True if buckets are summed while other gradients are still being computed, as in all daemons.
  // False if all sums start after the computation, with which tests and the bench compare; no
  // coordinator asks for it. The same value on all members.
  bool overlap = true;
};
// Reads the settings of a proto::Communication. Errors: INVALID_ARGUMENT for another gradient_dtype
// than float32, float16 and bfloat16.
absl::StatusOr<GroupCommunication> CommunicationOf(const proto::Communication& communication);

// The sum of one step over the members of a group. Thread-safe. Always owned by a shared_ptr: its
// calls hold it.
class GroupSum : public std::enable_shared_from_this<GroupSum> {
 public:
  using Sums = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;

  // Makes a sum. `summands` have the model's order, the same on every member. Errors:
  // INVALID_ARGUMENT for a type that has no sum.
  static absl::StatusOr<std::shared_ptr<GroupSum>> Make(std::shared_ptr<GangGroup> group,
                                                        const GroupCommunication& communication,
                                                        std::vector<SummandType> summands);

  // Returns the memory into which this member writes its summand. The memory is not initialised.
  Tensor Place(size_t summand) const;
  // Writes a neutral element, which adds nothing, as this member's summand.
  void PlaceNeutral(size_t summand);

  // Notes that the summand is written and will not be touched any more, and starts the buckets that
  // can start. Called once for each summand, in any order. Errors: the error that has ended the
  // group, if a call has reported it already.
  absl::Status Ready(size_t summand);
  absl::Status status() const;

  // Gives `done` the sums, in the order of the summands, when all summands are ready. `done` runs
  // once, inside this call or on any thread, and must post longer work elsewhere, as for a
  // communicator. Errors: those of the group (communicator.h).
  void Finish(Sums done);

 private:
  // Where a summand lies in the memory of the buckets.
  struct Location {
    size_t bucket = 0;
    size_t offset = 0;  // offset of the summand in the bucket's memory, in bytes
  };

  GroupSum(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
           std::vector<SummandType> summands);
  void StartBucket(size_t index);
  void Widen(size_t index);
  void BucketDone(size_t index, const absl::Status& status);
  void GiveSums(Sums done, const absl::Status& status) const;

  // The gang's group; shared, so that it lives until its calls are done.
  const std::shared_ptr<GangGroup> group_;
  const GroupCommunication communication_;
  const std::vector<SummandType> summands_;
  // The buckets. They are constant after construction, as are locations_, memory_ and rounded_.
  std::vector<Bucket> buckets_;
  std::vector<Location> locations_;              // where each summand lies in the buckets
  std::vector<std::shared_ptr<Buffer>> memory_;  // memory of each bucket, shared with the sums
  // One buffer per bucket for the rounded values that travel; null if a bucket travels in its own
  // type.
  std::vector<std::shared_ptr<Buffer>> rounded_;
  mutable Mutex mutex_;
  // Number of summands of each bucket that are not ready.
  std::vector<size_t> missing_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;        // index of the next bucket to start
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;  // true while a thread starts buckets
  size_t left_ ABSL_GUARDED_BY(mutex_);            // number of buckets whose sums are not complete
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  Sums done_ ABSL_GUARDED_BY(mutex_);
};

// One tensor to be summed over the group.
struct GroupSummand {
  std::string name;  // name of the summand for messages, the same on all members
  Tensor value;
  // True if this member adds nothing; `value` then only gives the type and shape.
  bool neutral = false;
  bool gradient = false;  // true for a gradient; see SummandType
};

// Sums values that are computed already, so all buckets start at once. `done` and the errors are
// those of GroupSum::Finish.
void SumOverGroup(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
                  const std::vector<GroupSummand>& summands, GroupSum::Sums done);

}  // namespace cohort
