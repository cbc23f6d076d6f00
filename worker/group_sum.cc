#include "worker/group_sum.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "worker/collective/bucket_plan.h"

namespace cohort {

namespace {

bool HasSum(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

// x + -0.0 is x for every float, -0.0 too; x + 0.0 is not.
template <typename T>
void FillNeutral(std::byte* out, int64_t elements) {
  std::fill_n(reinterpret_cast<T*>(out), elements, T{-0.0});
}

void Pack(const GroupSummand& summand, std::byte* out) {
  const Tensor& value = summand.value;
  if (value.num_bytes() == 0) return;
  if (!summand.neutral) {
    std::memcpy(out, value.raw(), value.num_bytes());
  } else if (value.dtype() == DType::kFloat32) {
    FillNeutral<float>(out, value.num_elements());
  } else if (value.dtype() == DType::kFloat64) {
    FillNeutral<double>(out, value.num_elements());
  } else {
    std::memset(out, 0, value.num_bytes());
  }
}

// One sum of all. Thread-safe. Shared with its buckets' calls.
class GroupSum : public std::enable_shared_from_this<GroupSum> {
 public:
  GroupSum(std::shared_ptr<GangGroup> group, std::vector<GroupSummand> summands, GroupSums done)
      : group_(std::move(group)), summands_(std::move(summands)), done_(std::move(done)) {}

  void Start(const GroupCommunication& communication) {
    std::vector<BucketItem> items;
    for (const GroupSummand& summand : summands_) {
      items.push_back({summand.name, summand.value.dtype(), summand.value.num_elements()});
    }
    BucketOptions options;
    options.bytes_per_pack = communication.bytes_per_pack;
    buckets_ = PlanBuckets(items, options);
    for (const Bucket& bucket : buckets_) {
      const size_t bytes = static_cast<size_t>(bucket.elements) * ElementSize(bucket.dtype);
      memory_.push_back(group_->Take(std::max<size_t>(bytes, 1)));
      for (size_t i = 0; i < bucket.items.size(); ++i) {
        Pack(summands_[bucket.items[i]], memory_.back()->data() + OffsetOf(bucket, i));
      }
    }
    {
      MutexLock lock(mutex_);
      left_ = buckets_.size() + 1;
    }
    for (size_t i = 0; i < buckets_.size(); ++i) StartBucket(i, communication);
    BucketDone(absl::OkStatus());
  }

 private:
  static size_t OffsetOf(const Bucket& bucket, size_t item) {
    return static_cast<size_t>(bucket.offsets[item]) * ElementSize(bucket.dtype);
  }

  void StartBucket(size_t index, const GroupCommunication& communication) {
    const Bucket& bucket = buckets_[index];
    CollectiveCall call;
    call.op = CollectiveOp::kAllReduce;
    call.dtype = bucket.dtype;
    call.name = absl::StrCat("bucket ", index, " with ", summands_[bucket.items[0]].name);
    call.count = bucket.elements;
    call.layout = bucket.layout;
    call.algorithm = communication.algorithm;
    call.timeout = communication.timeout;
    call.output = absl::MakeSpan(memory_[index]->data(), static_cast<size_t>(bucket.elements) *
                                                             ElementSize(bucket.dtype));
    call.input = call.output;
    group_->communicator().Start(std::move(call), [self = shared_from_this()](
                                                      absl::Status status) {
      self->BucketDone(std::move(status));
    });
  }

  void BucketDone(absl::Status status) {
    {
      MutexLock lock(mutex_);
      first_error_.Update(status);
      if (--left_ > 0) return;
      status = first_error_;
    }
    if (!status.ok()) return done_(std::move(status));
    std::vector<Tensor> sums(summands_.size());
    for (size_t b = 0; b < buckets_.size(); ++b) {
      for (size_t i = 0; i < buckets_[b].items.size(); ++i) {
        const Tensor& value = summands_[buckets_[b].items[i]].value;
        sums[buckets_[b].items[i]] =
            Tensor(value.dtype(), value.shape(), memory_[b], OffsetOf(buckets_[b], i));
      }
    }
    done_(std::move(sums));
  }

  const std::shared_ptr<GangGroup> group_;  // shared: lives until its calls are done
  const std::vector<GroupSummand> summands_;
  GroupSums done_;  // of the call that ends last
  std::vector<Bucket> buckets_;                  // constant once calls are started, as the next
  std::vector<std::shared_ptr<Buffer>> memory_;  // by bucket; shared with the sums
  Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

GroupCommunication CommunicationOf(const proto::Communication& communication) {
  GroupCommunication read;
  if (communication.ring()) read.algorithm = CollectiveAlgorithm::kRing;
  read.bytes_per_pack = std::max<int64_t>(communication.bytes_per_pack(), 0);
  if (communication.timeout_ms() > 0) read.timeout = absl::Milliseconds(communication.timeout_ms());
  return read;
}

void SumOverGroup(std::shared_ptr<GangGroup> group, const GroupCommunication& communication,
                  std::vector<GroupSummand> summands, GroupSums done) {
  for (const GroupSummand& summand : summands) {
    if (HasSum(summand.value.dtype())) continue;
    return done(absl::InvalidArgumentError(
        absl::StrCat(summand.name, " is ", summand.value.TypeString(),
                     ", which workers do not add up: cast it to float32, float64, int32 or "
                     "int64")));
  }
  std::make_shared<GroupSum>(std::move(group), std::move(summands), std::move(done))
      ->Start(communication);
}

}  // namespace cohort
