#include "worker/gang/group_sum.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/runtime/kernel/half_floats.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {

namespace {

bool HasSum(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

// Returns the type in which a summand is sent. Only float32 gradients may be rounded; all other
// summands are sent in their own type.
DType TravelsAs(const SummandType& summand, const GroupCommunication& communication) {
  const bool rounded = summand.gradient && summand.dtype == DType::kFloat32;
  return rounded ? communication.gradient_dtype : summand.dtype;
}

std::vector<Bucket> BucketsOf(const std::vector<SummandType>& summands,
                              const GroupCommunication& communication) {
  std::vector<BucketItem> items;
  for (const SummandType& summand : summands) {
    items.push_back(
        {summand.name, TravelsAs(summand, communication), summand.shape.num_elements()});
  }
  BucketOptions options;
  // Buckets for NCCL are larger, because every NCCL call waits for all ranks.
  options.bytes_per_pack = communication.bytes_per_pack;
  if (communication.nccl) options.automatic_bytes = kNcclBucketBytes;
  return PlanBuckets(items, options);
}

size_t BytesOf(const Bucket& bucket) {
  return static_cast<size_t>(bucket.elements) * ElementSize(bucket.dtype);
}

}  // namespace

absl::StatusOr<GroupCommunication> CommunicationOf(const proto::Communication& communication) {
  GroupCommunication read;
  if (communication.gradient_dtype() != 0) {
    read.gradient_dtype = static_cast<DType>(communication.gradient_dtype());
  }
  if (read.gradient_dtype != DType::kFloat32 && !IsHalf(read.gradient_dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("Communication.gradient_dtype is ",
                                                   communication.gradient_dtype(),
                                                   "; float32, float16 or bfloat16"));
  }
  if (communication.ring()) read.algorithm = CollectiveAlgorithm::kRing;
  read.nccl = communication.nccl();
  read.bytes_per_pack = std::max<int64_t>(communication.bytes_per_pack(), 0);
  if (communication.timeout_ms() > 0) read.timeout = absl::Milliseconds(communication.timeout_ms());
  return read;
}

absl::StatusOr<std::shared_ptr<GroupSum>> GroupSum::Make(std::shared_ptr<GangGroup> group,
                                                         const GroupCommunication& communication,
                                                         std::vector<SummandType> summands) {
  for (const SummandType& summand : summands) {
    if (HasSum(summand.dtype)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(summand.name, " is ", DTypeName(summand.dtype), summand.shape.ToString(),
                     ", which workers do not add up: cast it to float32, float64, int32 or int64"));
  }
  return std::shared_ptr<GroupSum>(
      new GroupSum(std::move(group), communication, std::move(summands)));
}

GroupSum::GroupSum(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
                   std::vector<SummandType> summands)
    : group_(std::move(group)),
      communication_(communication),
      summands_(std::move(summands)),
      buckets_(BucketsOf(summands_, communication_)),
      locations_(summands_.size()),
      left_(buckets_.size()) {
  // All summands of a bucket have one type, so the first summand tells the element size.
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    const DType dtype = summands_[bucket.items[0]].dtype;
    const size_t bytes = static_cast<size_t>(bucket.elements) * ElementSize(dtype);
    // A bucket whose tensors are all empty still needs a valid buffer.
    memory_.push_back(group_->Take(std::max<size_t>(bytes, 1)));
    rounded_.push_back(dtype == bucket.dtype ? nullptr
                                             : group_->Take(std::max<size_t>(BytesOf(bucket), 1)));
    missing_.push_back(bucket.items.size());
    for (size_t i = 0; i < bucket.items.size(); ++i) {
      const size_t offset = static_cast<size_t>(bucket.offsets[i]) * ElementSize(dtype);
      locations_[bucket.items[i]] = {b, offset};
    }
  }
}

Tensor GroupSum::Place(size_t summand) const {
  const Location& location = locations_[summand];
  return Tensor(summands_[summand].dtype, summands_[summand].shape, memory_[location.bucket],
                location.offset);
}

void GroupSum::PlaceNeutral(size_t summand) {
  Tensor place = Place(summand);
  FillNeutral(place.dtype(), place.num_elements(), place.mutable_raw());
}

// Counts the summand as ready, and starts buckets whose summands are all ready, in the order of the
// buckets. One thread at a time starts buckets; a second thread leaves its bucket to the first.
absl::Status GroupSum::Ready(size_t summand) {
  for (bool first = true;; first = false) {
    size_t index = 0;
    {
      MutexLock lock(mutex_);
      if (first) --missing_[locations_[summand].bucket];
      if (first && starting_) return first_error_;
      // The next bucket is looked for after each start, because other summands may have become
      // ready.
      starting_ = next_ < buckets_.size() && missing_[next_] == 0;
      if (!starting_) return first_error_;
      index = next_++;
    }
    // The bucket is started outside the lock, because BucketDone() may run at once.
    StartBucket(index);
  }
}

absl::Status GroupSum::status() const {
  MutexLock lock(mutex_);
  return first_error_;
}

void GroupSum::StartBucket(size_t index) {
  const Bucket& bucket = buckets_[index];
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.dtype = bucket.dtype;
  call.name = absl::StrCat("bucket ", index, " with ", summands_[bucket.items[0]].name);
  call.count = bucket.elements;
  call.layout = bucket.layout;
  call.algorithm = communication_.algorithm;
  call.timeout = communication_.timeout;
  // The collective call runs in place: on the copy in 16 bits if there is one, else on the bucket
  // itself.
  const std::shared_ptr<Buffer>& travels = rounded_[index] ? rounded_[index] : memory_[index];
  if (rounded_[index]) {
    NarrowFloats(reinterpret_cast<const float*>(memory_[index]->data()),
                 static_cast<size_t>(bucket.elements), bucket.dtype,
                 reinterpret_cast<uint16_t*>(travels->data()));
  }
  call.output = absl::MakeSpan(travels->data(), BytesOf(bucket));
  call.input = call.output;
  group_->communicator().Start(std::move(call),
                               [self = shared_from_this(), index](const absl::Status& status) {
                                 if (!self->rounded_[index] || !status.ok()) {
                                   return self->BucketDone(index, status);
                                 }
                                 // Widening the sums to float32 takes too long for a call's Done,
                                 // so it is posted.
                                 self->group_->RunElsewhere([self, index] {
                                   self->Widen(index);
                                   self->BucketDone(index, absl::OkStatus());
                                 });
                               });
}

void GroupSum::Widen(size_t index) {
  const Bucket& bucket = buckets_[index];
  WidenFloats(reinterpret_cast<const uint16_t*>(rounded_[index]->data()),
              static_cast<size_t>(bucket.elements), bucket.dtype,
              reinterpret_cast<float*>(memory_[index]->data()));
}

void GroupSum::BucketDone(size_t index, const absl::Status& status) {
  Sums done;
  absl::Status error;
  {
    MutexLock lock(mutex_);
    first_error_.Update(status);
    // If Finish() has not been called yet, it will see left_ == 0 and give the sums itself.
    if (--left_ > 0 || !done_) return;
    done = std::exchange(done_, nullptr);
    error = first_error_;
  }
  // `done` is called outside the lock, because it may drop the last reference to this object.
  GiveSums(std::move(done), error);
}

void GroupSum::Finish(Sums done) {
  absl::Status error;
  {
    MutexLock lock(mutex_);
    // Every bucket must have started before Finish(), because the sums of any other bucket would
    // never be made.
    COHORT_CHECK(next_ == buckets_.size(), "all summands are ready");
    if (left_ > 0) {
      done_ = std::move(done);
      return;
    }
    error = first_error_;
  }
  GiveSums(std::move(done), error);
}

void GroupSum::GiveSums(Sums done, const absl::Status& status) const {
  // After an error, the buckets' memory may hold incomplete sums, which are not given out.
  if (!status.ok()) return done(status);
  std::vector<Tensor> sums;
  for (size_t summand = 0; summand < summands_.size(); ++summand) sums.push_back(Place(summand));
  done(std::move(sums));
}

void SumOverGroup(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
                  const std::vector<GroupSummand>& summands, GroupSum::Sums done) {
  std::vector<SummandType> types;
  for (const GroupSummand& summand : summands) {
    types.push_back({summand.name, summand.value.dtype(), summand.value.shape(), summand.gradient});
  }
  const auto sum = GroupSum::Make(std::move(group), communication, std::move(types));
  if (!sum.ok()) return done(sum.status());
  for (size_t i = 0; i < summands.size(); ++i) {
    // All members call Ready() in the order of the summands.
    const Tensor& value = summands[i].value;
    if (summands[i].neutral) {
      (*sum)->PlaceNeutral(i);
    } else if (value.num_bytes() > 0) {
      std::memcpy((*sum)->Place(i).mutable_raw(), value.raw(), value.num_bytes());
    }
    (*sum)->Ready(i).IgnoreError();  // an error of Ready() is reported again by Finish()
  }
  (*sum)->Finish(std::move(done));
}

}  // namespace cohort
