#pragma once

// The exchange by which the replicas of one step combine values while they compute (AllReduce,
// AllGather). A kernel gives the value of its replica and gets the joint result. Replicas run the
// same program, so the k-th calls of all replicas belong together. Each call waits, without a
// thread, until the last replica has made its k-th call.
//
// RunContext carries each replica's end of the exchange to the kernels; the runtime does not look
// inside. In a run without an exchange only one replica runs, and its kernels give the result for a
// single replica.

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
    kMean,    // the mean over the replicas that run
    kGather,  // the values of all replicas, one after the other along `axis`
    // The gradient of kGather: the values are summed over the replicas, and each replica gets the
    // part along `axis` that it gave to the gather.
    kSumPart,
  };
  Op op = Op::kSum;
  std::string node;  // name of the node in the graph; the same on all replicas
  // The value of the calling replica; all replicas give one type. kGather takes any type, and sizes
  // along `axis` may differ. The other operations take float32, float64, int32 or int64, and one
  // shape.
  Tensor value;
  int64_t axis = 0;  // axis along which kGather and kSumPart work
  // For kSumPart: how long along `axis` the value was that this replica gave to the gather.
  int64_t size = 0;
};

// One replica's end of an exchange. Thread-safe.
class ReplicaExchange {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;

  virtual ~ReplicaExchange() = default;

  // Returns the number of this replica's examples divided by the mean number of all replicas: 1 if
  // all replicas have equally many examples.
  virtual double share() const = 0;

  // Gives this replica's value and asks for the joint result. Join() reads `call.value` before it
  // returns. `done` runs once, inside Join() or on another thread; the resulting tensor may be
  // shared with other replicas and must not be written. Errors: INVALID_ARGUMENT naming two values
  // that do not fit together; the error of another replica that has failed.
  virtual void Join(const ExchangeCall& call, Done done) = 0;
};

// Registers kernels for AllReduce, AllGather and AllGatherGrad that combine the values of all
// replicas. They replace the runtime's kernels of these operators, which serve a single replica.
void RegisterExchangeKernels(KernelRegistry& registry);

}  // namespace cohort
