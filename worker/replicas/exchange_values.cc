#include "worker/replicas/exchange_values.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/pieces.h"
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

// Returns the parts of this worker's replicas from the whole, one after the other along the axis.
std::vector<absl::StatusOr<Tensor>> PartsOf(const WholeExchange& whole, int axis,
                                            absl::Span<const int64_t> sizes) {
  // The gradient of a gathering must have the size that the replicas gathered.
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

}  // namespace

absl::StatusOr<ExchangeCall> JoinLocalCalls(std::vector<ExchangeCall> calls) {
  ExchangeCall joined = calls[0];
  joined.size = 0;
  std::vector<Tensor> values;
  for (ExchangeCall& call : calls) {
    // Replicas run the same program, so a meeting at different nodes is a bug of the runtime.
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
  // A mean divides the sum here, when the values of all workers are in it.
  if (call.op == ExchangeCall::Op::kMean) {
    absl::Status divided = Divide(static_cast<double>(replicas), whole.value);
    if (!divided.ok()) return {sizes.size(), std::move(divided)};
  }
  return {sizes.size(), std::move(whole.value)};
}

}  // namespace cohort
