#include "worker/replica_meeting.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/pieces.h"
#include "worker/join_replicas.h"

namespace cohort {

namespace {

template <typename T>
void DivideAll(double by, Tensor& value) {
  T* const elements = value.mutable_data<T>();
  for (int64_t i = 0; i < value.num_elements(); ++i) elements[i] /= static_cast<T>(by);
}

absl::Status Divide(double by, Tensor& value) {
  switch (value.dtype()) {
    case DType::kFloat32: DivideAll<float>(by, value); return absl::OkStatus();
    case DType::kFloat64: DivideAll<double>(by, value); return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "replicas computed ", value.TypeString(), ", of which there is no mean: cast it"));
  }
}

absl::StatusOr<Tensor> SumOf(std::vector<Tensor> values, bool mean) {
  const auto count = static_cast<double>(values.size());
  ASSIGN_OR_RETURN(std::vector<Tensor> joined, JoinReplicas(JoinRule::kSum, std::move(values)));
  if (mean) RETURN_IF_ERROR(Divide(count, joined[0]));
  return std::move(joined[0]);
}

// One behind the other along `axis`, of these sizes.
std::vector<absl::StatusOr<Tensor>> PartsOf(const Tensor& whole, int axis,
                                            const std::vector<int64_t>& sizes) {
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (sum != whole.shape().dim(axis)) {
    return {sizes.size(), absl::InvalidArgumentError(absl::StrCat(
                              "replicas gathered ", sum, " along axis ", axis,
                              ", and the gradient of it is ", whole.TypeString()))};
  }
  std::vector<absl::StatusOr<Tensor>> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.emplace_back(PieceOf(whole, axis, begin, size));
    begin += size;
  }
  return parts;
}

}  // namespace

// Thread-safe.
class ReplicaMeeting::ReplicaSeat final : public ReplicaExchange {
 public:
  ReplicaSeat(ReplicaMeeting& meeting, size_t rank, double share)
      : meeting_(meeting), rank_(rank), share_(share) {}

  double share() const override { return share_; }
  void Join(const ExchangeCall& call, Done done) override {
    meeting_.Join(rank_, call, std::move(done));
  }

 private:
  ReplicaMeeting& meeting_;
  const size_t rank_;
  const double share_;
};

ReplicaMeeting::ReplicaMeeting(const std::vector<double>& shares, std::shared_ptr<OutputPool> pool)
    : pool_(std::move(pool)),
      arrivals_(shares.size()),
      missing_(shares.size()),
      told_(shares.size(), false) {
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    seats_.push_back(std::make_unique<ReplicaSeat>(*this, rank, shares[rank]));
  }
}

ReplicaMeeting::~ReplicaMeeting() = default;

ReplicaExchange& ReplicaMeeting::Seat(size_t rank) { return *seats_[rank]; }

void ReplicaMeeting::Join(size_t rank, const ExchangeCall& call, ReplicaExchange::Done done) {
  // The caller's memory is its own again when this returns.
  absl::StatusOr<Tensor> copy = Weighted(call.value, 1, *pool_);
  if (!copy.ok()) return done(copy.status());
  std::vector<Arrival> all;
  absl::Status error;
  {
    MutexLock lock(mutex_);
    error = error_;
    if (!error.ok()) {
      told_[rank] = true;
    } else {
      arrivals_[rank] = {call, std::move(done)};
      arrivals_[rank].call.value = *std::move(copy);
      if (--missing_ > 0) return;
      missing_ = arrivals_.size();
      all = std::exchange(arrivals_, std::vector<Arrival>(arrivals_.size()));
    }
  }
  if (!error.ok()) return done(std::move(error));
  std::vector<absl::StatusOr<Tensor>> joined = JoinedOf(all);
  // The others first: this one's own goes on with its run in the call.
  for (size_t other = 0; other < all.size(); ++other) {
    if (other != rank) all[other].done(std::move(joined[other]));
  }
  all[rank].done(std::move(joined[rank]));
}

std::vector<absl::StatusOr<Tensor>> ReplicaMeeting::JoinedOf(std::vector<Arrival>& arrivals) {
  const ExchangeCall& first = arrivals[0].call;
  std::vector<Tensor> values;
  std::vector<int64_t> sizes;
  for (Arrival& arrival : arrivals) {
    if (arrival.call.node != first.node || arrival.call.op != first.op) {
      return {arrivals.size(), absl::InternalError(absl::StrCat("replicas meet at node '",
                                                                first.node, "' and at '",
                                                                arrival.call.node, "'"))};
    }
    values.push_back(std::move(arrival.call.value));
    sizes.push_back(arrival.call.size);
  }
  if (first.op == ExchangeCall::Op::kGather) {
    return {arrivals.size(), Concatenated(values, first.axis)};
  }
  const absl::StatusOr<Tensor> sum =
      SumOf(std::move(values), first.op == ExchangeCall::Op::kMean);
  if (first.op != ExchangeCall::Op::kSumPart || !sum.ok()) return {arrivals.size(), sum};
  return PartsOf(*sum, static_cast<int>(first.axis), sizes);
}

void ReplicaMeeting::Leave(size_t rank, const absl::Status& error) {
  std::vector<ReplicaExchange::Done> waiting;
  {
    MutexLock lock(mutex_);
    if (!error_.ok()) return;
    error_ = error;
    for (size_t other = 0; other < arrivals_.size(); ++other) {
      if (!arrivals_[other].done || other == rank) continue;
      told_[other] = true;
      waiting.push_back(std::move(arrivals_[other].done));
    }
  }
  for (ReplicaExchange::Done& done : waiting) done(error);
}

bool ReplicaMeeting::WasTold(size_t rank) const {
  MutexLock lock(mutex_);
  return told_[rank];
}

}  // namespace cohort
