#include "worker/gang/group_exchange.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/pieces.h"
#include "worker/gang/group_gather.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {

namespace {

template <typename T>
void DivideAll(double by, Tensor& value) {
  T* const elements = value.mutable_data<T>();
  for (int64_t i = 0; i < value.num_elements(); ++i) elements[i] /= static_cast<T>(by);
}

absl::Status Divide(double by, Tensor& value) {
  switch (value.dtype()) {
    case DType::kFloat32:
      DivideAll<float>(by, value);
      return absl::OkStatus();
    case DType::kFloat64:
      DivideAll<double>(by, value);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("replicas computed ", value.TypeString(), ", which has no mean: cast it"));
  }
}

// Returns the parts of `whole` that belong to this worker's replicas: from `whole.begin` on, one
// after the other along `axis`. Errors: INVALID_ARGUMENT if the sizes of all parts do not add up to
// `whole`.
std::vector<absl::StatusOr<Tensor>> PartsOf(const WholeExchange& whole, int axis,
                                            absl::Span<const int64_t> sizes) {
  // The gradient of a gathered value must be as long as what the replicas have gathered.
  if (whole.size != whole.value.shape().dim(axis)) {
    return {sizes.size(), absl::InvalidArgumentError(absl::StrCat(
                              "replicas gathered ", whole.size, " along axis ", axis,
                              ", and the gradient of it is ", whole.value.TypeString()))};
  }
  std::vector<absl::StatusOr<Tensor>> parts;
  int64_t begin = whole.begin;
  for (const int64_t size : sizes) {
    parts.emplace_back(PieceOf(whole.value, axis, begin, size));
    begin += size;
  }
  return parts;
}

// One exchange between the workers of a gang of the values that each worker's replicas have joined.
// Its collective calls follow each other and hold a reference to this object. Thread-safe.
class GroupExchange : public std::enable_shared_from_this<GroupExchange> {
 public:
  GroupExchange(MeetingWorkers workers, ExchangeCall joined, GroupExchanged done)
      : workers_(std::move(workers)), joined_(std::move(joined)), done_(std::move(done)) {}

  void Start() {
    switch (joined_.op) {
      case ExchangeCall::Op::kGather:
        return Gather();
      case ExchangeCall::Op::kSumPart:
        return GatherSizes();
      default:
        return Sum();
    }
  }

 private:
  void Sum() {
    std::vector<GroupSummand> summands;
    // The type of the value is a part of the call's name, so that workers with different types get
    // an error that shows both types.
    summands.push_back({absl::StrCat(joined_.node, " ", joined_.value.TypeString()), joined_.value,
                        workers_.neutral});
    SumOverGroup(workers_.group, workers_.communication, std::move(summands),
                 [self = shared_from_this()](absl::StatusOr<std::vector<Tensor>> sums) {
                   if (!sums.ok()) return self->done_(sums.status());
                   self->whole_.value = std::move((*sums)[0]);
                   self->done_(std::move(self->whole_));
                 });
  }

  // Gathers the sizes of all workers' parts before the sum, so that each worker knows where its own
  // parts begin.
  void GatherSizes() {
    GatherNumbers(workers_.group,
                  {absl::StrCat("sizes of ", joined_.node),
                   {workers_.neutral ? 0 : joined_.size},
                   workers_.communication.timeout},
                  [self = shared_from_this()](absl::StatusOr<std::vector<int64_t>> sizes) {
                    if (!sizes.ok()) return self->done_(sizes.status());
                    self->TakeSizes(*sizes);
                    self->Sum();
                  });
  }

  void TakeSizes(const std::vector<int64_t>& sizes) {
    // The parts lie in the order of ranks: this worker's parts begin after those of all lower
    // ranks.
    const auto own = sizes.begin() + workers_.group->rank();
    whole_.begin = std::accumulate(sizes.begin(), own, int64_t{0});
    whole_.size = std::accumulate(own, sizes.end(), whole_.begin);
    // A neutral worker (MeetingWorkers) gets the part of the last replica of all.
    if (workers_.neutral) whole_.begin = whole_.size - joined_.size;
  }

  void Gather() {
    GroupGather gather;
    gather.name = joined_.node;
    // A neutral worker gathers nothing, because another worker gives the same rows.
    if (!workers_.neutral) gather.own = {joined_.value};
    gather.timeout = workers_.communication.timeout;
    GatherOverGroup(workers_.group, std::move(gather),
                    [self = shared_from_this()](absl::StatusOr<std::vector<Tensor>> parts) {
                      if (!parts.ok()) return self->done_(parts.status());
                      absl::StatusOr<Tensor> whole = Concatenated(*parts, self->joined_.axis);
                      if (!whole.ok()) return self->done_(whole.status());
                      self->whole_.value = *std::move(whole);
                      self->done_(std::move(self->whole_));
                    });
  }

  const MeetingWorkers workers_;
  const ExchangeCall joined_;
  GroupExchanged done_;
  WholeExchange whole_;
};

}  // namespace

absl::StatusOr<ExchangeCall> JoinLocalCalls(std::vector<ExchangeCall> calls) {
  ExchangeCall joined = calls[0];
  joined.size = 0;
  std::vector<Tensor> values;
  for (ExchangeCall& call : calls) {
    // Replicas run the same program, so replicas at different nodes are a bug of the runtime.
    if (call.node != joined.node || call.op != joined.op) {
      return absl::InternalError(
          absl::StrCat("replicas meet at node '", joined.node, "' and at '", call.node, "'"));
    }
    values.push_back(std::move(call.value));
    joined.size += call.size;
  }
  if (joined.op == ExchangeCall::Op::kGather) {
    ASSIGN_OR_RETURN(joined.value, Concatenated(values, joined.axis));
  } else {
    ASSIGN_OR_RETURN(std::vector<Tensor> sum, JoinReplicas(JoinRule::kSum, std::move(values)));
    joined.value = std::move(sum[0]);
  }
  return joined;
}

std::vector<absl::StatusOr<Tensor>> SplitResult(const ExchangeCall& call, WholeExchange whole,
                                                absl::Span<const int64_t> sizes, int64_t replicas) {
  if (call.op == ExchangeCall::Op::kSumPart) {
    return PartsOf(whole, static_cast<int>(call.axis), sizes);
  }
  // The sum for a mean is divided here, after the values of all workers have been added up.
  if (call.op == ExchangeCall::Op::kMean) {
    absl::Status divided = Divide(static_cast<double>(replicas), whole.value);
    if (!divided.ok()) return {sizes.size(), std::move(divided)};
  }
  return {sizes.size(), std::move(whole.value)};
}

void ExchangeOverGroup(const MeetingWorkers& workers, ExchangeCall joined, GroupExchanged done) {
  std::make_shared<GroupExchange>(workers, std::move(joined), std::move(done))->Start();
}

}  // namespace cohort
