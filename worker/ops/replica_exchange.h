#pragma once

// The exchange by which the replicas of one step combine values while they compute (AllReduce,
// AllGather). A kernel gives the value of its replica and gets the joint result. Replicas run the
// same program, so the k-th calls of all replicas belong together. Each call waits, without a
// thread, until the last replica has made its k-th call.
//
// RunContext carries a replica's own end of the exchange to the kernels; the runtime does not look
// inside. If the run's context has no exchange, only one replica runs, and the kernels give the
// result for that replica alone.

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"

namespace cohort {

class KernelRegistry;

// One replica's call to combine its value with the values of the other replicas.
struct ExchangeCall {
  enum class Op {
    kSum,
    kMean,    // mean over the replicas that run
    kGather,  // all values concatenated along the axis, in the order of replicas
    // The gradient of kGather: from the sum over the replicas, the part of the axis that this
    // replica gave to the gather.
    kSumPart,
  };
  Op op = Op::kSum;
  std::string node;  // name of the graph's node, the same on all replicas
  // The value of the calling replica. All replicas give the same type. A gather takes any type, and
  // sizes along the axis may differ. The other operations take float32, float64, int32 or int64 of
  // one shape.
  Tensor value;
  int64_t axis = 0;  // axis along which kGather and kSumPart work
  int64_t size = 0;  // for kSumPart: size, along the axis, of what this replica gave to the gather
};

// The object through which one replica combines values with the other replicas. Thread-safe.
class ReplicaExchange {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;

  virtual ~ReplicaExchange() = default;

  // Returns the number of this replica's examples divided by the mean over all replicas: 1 if all
  // replicas have equally many.
  virtual double share() const = 0;

  // Gives this replica's value and asks for the joint result. `call.value` is read before Join
  // returns. `done` runs once, inside Join or on another thread; other replicas may share the
  // tensor. Errors: INVALID_ARGUMENT for values that do not fit together, naming both; the error
  // that ended another replica.
  virtual void Join(const ExchangeCall& call, Done done) = 0;
};

// Registers in `registry` the kernels of the nodes that combine values of all replicas, such as
// AllReduce. They replace the runtime's kernels, which serve a single replica.
void RegisterExchangeKernels(KernelRegistry& registry);

}  // namespace cohort
