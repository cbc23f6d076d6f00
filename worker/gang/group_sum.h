#pragma once

// Adds up the values that the members of a group have computed, tensor by tensor, in buckets
// (bucket_plan.h): a bucket holds the values of one or more tensors and is summed by one collective
// call. A bucket starts when all its summands are ready and all earlier buckets have started. So
// all members start the buckets in one order, whichever summand is ready first on a member, and a
// bucket travels while later summands are still computed. A member's summand is the sum over its
// replicas. If all members have the same number of replicas, and this number is a power of two, all
// additions follow the tree of join_replicas.h over all replicas: the sum has the same bits,
// however the replicas are spread over workers (reduce_tree.h).
//
// Summands are written to the memory of the buckets, and the sums appear in the same memory. A
// bucket that travels in 16 bits has a second buffer for its rounded values. All memory lives until
// the last call on it is done, even if no caller waits for the sums any more.

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

// The properties of a summand; they are equal on all members.
struct SummandType {
  std::string name;  // name of the summand, for messages
  DType dtype = DType::kFloat32;
  Shape shape;
  bool gradient = false;  // true for a gradient, which may travel in 16 bits
};

// The settings by which the members of a group communicate; equal on all members.
struct GroupCommunication {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int64_t bytes_per_pack = 0;
  bool nccl = false;
  absl::Duration timeout = absl::InfiniteDuration();
  // The type in which float32 gradients travel: float32, float16 or bfloat16. With 16 bits, each
  // member's summand is rounded once, the rounded summands are added up in float32, and the sum is
  // rounded once more.
  DType gradient_dtype = DType::kFloat32;
  // True if buckets are summed while later gradients are computed, as in all daemons. False if all
  // sums start after the computation; only tests and benchmarks set it, to compare the two.
  bool overlap = true;
};
// Reads the settings from their proto. Errors: INVALID_ARGUMENT for a gradient_dtype that is not
// float32, float16 or bfloat16.
absl::StatusOr<GroupCommunication> CommunicationOf(const proto::Communication& communication);

// The sums of one step over the members of a group. Thread-safe. Always owned by a shared_ptr,
// which the collective calls hold.
class GroupSum : public std::enable_shared_from_this<GroupSum> {
 public:
  using Sums = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;

  // Makes the sums. `summands` have one order on all members, that of the model. Errors:
  // INVALID_ARGUMENT for a type other than float32, float64, int32 and int64.
  static absl::StatusOr<std::shared_ptr<GroupSum>> Make(std::shared_ptr<GangGroup> group,
                                                        const GroupCommunication& communication,
                                                        std::vector<SummandType> summands);

  // Returns the memory into which this member writes summand number `summand`, not initialised.
  Tensor Place(size_t summand) const;
  // Writes a neutral element, which adds nothing to the sum, as this member's summand.
  void PlaceNeutral(size_t summand);

  // Notes that this member's summand is written and stays unchanged, and starts every bucket that
  // can start. Called once for each summand, in any order. Returns the error that has ended the
  // group, if a call has reported one already.
  absl::Status Ready(size_t summand);
  absl::Status status() const;

  // Gives `done` the sums, in the order of the summands. Called when all summands are ready. `done`
  // runs once, inside this call or on any thread, and must post longer work elsewhere, as must the
  // Done of a communicator. Errors: those of the group (communicator.h).
  void Finish(Sums done);

 private:
  // The place of a summand in the memory of the buckets.
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

  // The gang's group; shared, so that it lives until its collective calls are done.
  const std::shared_ptr<GangGroup> group_;
  const GroupCommunication communication_;
  const std::vector<SummandType> summands_;
  // The buckets; constant after construction, like locations_, memory_ and rounded_.
  std::vector<Bucket> buckets_;
  std::vector<Location> locations_;              // place of each summand in the buckets
  std::vector<std::shared_ptr<Buffer>> memory_;  // memory of each bucket; shared with the sums
  // For each bucket: the buffer for the rounded values that travel; null if the bucket is not
  // rounded.
  std::vector<std::shared_ptr<Buffer>> rounded_;
  mutable Mutex mutex_;
  // For each bucket: the number of its summands that are not ready.
  std::vector<size_t> missing_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // index of the next bucket to start
  // True while a thread is in the loop that starts buckets.
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;
  size_t left_ ABSL_GUARDED_BY(mutex_);  // number of buckets whose sums are not complete
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  Sums done_ ABSL_GUARDED_BY(mutex_);
};

// A tensor that is to be summed over the group.
struct GroupSummand {
  std::string name;  // name of the tensor, for messages; the same on all members
  Tensor value;
  // True if this member adds nothing; only the type and shape of `value` are then used.
  bool neutral = false;
  bool gradient = false;  // true for a gradient; see SummandType
};

// Sums tensors that are computed already, so all buckets start at once. `done` runs as in
// GroupSum::Finish(). Errors: those of GroupSum::Make() and Finish().
void SumOverGroup(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
                  const std::vector<GroupSummand>& summands, GroupSum::Sums done);

}  // namespace cohort
