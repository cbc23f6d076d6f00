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

// Returns `value` times `factor`. A factor of 1 returns the tensor itself, so integers are never
// scaled.
Tensor Times(const Tensor& value, double factor) {
  if (factor == 1 || value.num_elements() == 0) return value;
  return value.dtype() == DType::kFloat64 ? Scaled<double>(value, factor)
                                          : Scaled<float>(value, factor);
}

// What one graph node asks of the replicas: a call without its value, and the weighing of the
// value.
struct Exchange {
  ExchangeCall call;
  // True if the values are gradients of mean losses, which are weighed by each replica's number of
  // examples.
  bool of_mean_losses = false;
};

// The kernel of a node that combines the values of all replicas, such as AllReduce. The kernel
// occupies no thread while it waits for the other replicas. Immutable; thread-safe.
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
    // A run without an exchange has only one replica. The sum, the mean and the gathering of one
    // value are the value itself.
    if (replicas == nullptr) return done(input);
    if (call.op == ExchangeCall::Op::kSumPart) {
      call.size = context.input(1).shape().dim(static_cast<int>(call.axis));
    }
    // The gradient is multiplied by this replica's share of the examples before the sum. The sum is
    // divided by the share afterwards.
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

// Registers AllReduce, AllGather and AllGatherGrad in place of the runtime's kernels of these
// names, which serve a single replica.
void RegisterExchangeKernels(KernelRegistry& registry) {
  const DTypeSet summed = {DType::kFloat32, DType::kFloat64};
  registry.Replace("cohort", "AllReduce", {{1, 1, {summed}}, MakeAllReduce});
  registry.Replace("cohort", "AllGather",
                   {{1, 1, {DTypeSet::All()}}, MakeGather<ExchangeCall::Op::kGather>});
  registry.Replace("cohort", "AllGatherGrad",
                   {{2, 2, {summed}}, MakeGather<ExchangeCall::Op::kSumPart>});
}

}  // namespace cohort
