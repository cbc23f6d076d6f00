#include "worker/ops/replica_exchange.h"

#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/runtime/kernel/kernel_registry.h"
#include "common/runtime/kernels/attribute_reader.h"
#include "common/runtime/run/program_runner.h"
#include "common/tensor/pieces.h"

namespace cohort {

namespace {

template <typename T>
Tensor Scaled(const Tensor& value, double factor) {
  Tensor scaled(value.dtype(), value.shape());
  const absl::Span<const T> from = value.span<T>();
  T* const to = scaled.mutable_data<T>();
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<T>(from[i] * factor);
  return scaled;
}

// Returns `value` times `factor`: the tensor itself if the factor is 1, as it always is for
// integers.
Tensor Times(const Tensor& value, double factor) {
  if (factor == 1 || value.num_elements() == 0) return value;
  return value.dtype() == DType::kFloat64 ? Scaled<double>(value, factor)
                                          : Scaled<float>(value, factor);
}

// The request of one graph node: its call without the value, and whether the value is weighed.
struct Exchange {
  ExchangeCall call;
  // True if the values are gradients of mean losses. They are weighed by each replica's number of
  // examples.
  bool of_mean_losses = false;
};

// The kernel of AllReduce, AllGather and AllGatherGrad. It occupies no thread while it waits for
// the other replicas. Immutable; thread-safe.
class ExchangeKernel final : public WaitingKernel {
 public:
  explicit ExchangeKernel(Exchange exchange) : exchange_(std::move(exchange)) {}

  void Start(KernelContext& context, Done done) const override {
    const Tensor& input = context.input(0);
    ExchangeCall call = exchange_.call;
    if (call.op == ExchangeCall::Op::kGather || call.op == ExchangeCall::Op::kSumPart) {
      const absl::StatusOr<int> axis = AxisOf(call.axis, input.shape().rank());
      if (!axis.ok()) return done(axis.status());
      call.axis = *axis;
    }
    ReplicaExchange* const replicas = context.run().exchange;
    // Without an exchange only one replica runs. The sum, the mean and the gathering of its one
    // value are the value itself.
    if (replicas == nullptr) return done(input);
    if (call.op == ExchangeCall::Op::kSumPart) {
      call.size = context.input(1).shape().dim(static_cast<int>(call.axis));
    }
    // A gradient of a mean loss counts by this replica's share of the examples. The sum is divided
    // by the same share, because the gradients that the replica computes from it are weighed by the
    // share again.
    const double share = exchange_.of_mean_losses ? replicas->share() : 1;
    call.value = Times(input, share);
    replicas->Join(call, [done = std::move(done), share](absl::StatusOr<Tensor> joined) mutable {
      if (joined.ok()) joined = Times(*joined, 1 / share);
      done(std::move(joined));
    });
  }

 private:
  const Exchange exchange_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeAllReduce(const onnx::NodeProto& node) {
  AttributeReader reader(node);
  const bool mean = reader.String("reduction", "sum") == "mean";
  Exchange exchange;
  exchange.call.op = mean ? ExchangeCall::Op::kMean : ExchangeCall::Op::kSum;
  exchange.call.node = node.name();
  exchange.of_mean_losses = reader.Flag("of_mean_losses", false);
  RETURN_IF_ERROR(reader.Finish());
  return std::make_unique<ExchangeKernel>(std::move(exchange));
}

template <ExchangeCall::Op kOp>
absl::StatusOr<std::unique_ptr<Kernel>> MakeGather(const onnx::NodeProto& node) {
  AttributeReader reader(node);
  Exchange exchange;
  exchange.call.op = kOp;
  exchange.call.node = node.name();
  exchange.call.axis = reader.Int("axis", 0);
  exchange.of_mean_losses = kOp == ExchangeCall::Op::kSumPart;
  RETURN_IF_ERROR(reader.Finish());
  return std::make_unique<ExchangeKernel>(std::move(exchange));
}

}  // namespace

void RegisterExchangeKernels(KernelRegistry& registry) {
  const DTypeSet summed = {DType::kFloat32, DType::kFloat64};
  registry.Replace("cohort", "AllReduce", {{1, 1, {summed}}, MakeAllReduce});
  registry.Replace("cohort", "AllGather",
                   {{1, 1, {DTypeSet::All()}}, MakeGather<ExchangeCall::Op::kGather>});
  registry.Replace("cohort", "AllGatherGrad",
                   {{2, 2, {summed}}, MakeGather<ExchangeCall::Op::kSumPart>});
}

}  // namespace cohort
