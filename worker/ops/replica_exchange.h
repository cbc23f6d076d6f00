#pragma once

// The place where the replicas of a step meet while they compute. A kernel gives its replica's
// value and gets the joint result. Replicas run the same program, so the k-th calls of all replicas
// belong together. Each call waits, without a thread, until the last replica has made it.
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

// A replica's call at one meeting.
struct ExchangeCall {
  enum class Op {
    kSum,
    kMean,    // mean over the replicas that run
    kGather,  // values one after the other along the axis, in the order of replicas
    // The part of the sum that corresponds to what this replica gathered.
    kSumPart,
  };
  Op op = Op::kSum;
  std::string node;  // name of the graph's node, the same on all replicas
  // The replica's value, with one type on all replicas. A gather takes any type, and the sizes
  // along the axis may differ. The other operations take float32, float64, int32 or int64 of one
  // shape.
  Tensor value;
  int64_t axis = 0;  // axis of kGather and kSumPart
  int64_t size = 0;  // size of this replica's part along the axis
};

// One replica's end of the exchange. Thread-safe.
class ReplicaExchange {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;

  virtual ~ReplicaExchange() = default;

  // Returns the number of this replica's examples divided by the mean over all replicas: 1 if all
  // replicas have equally many.
  virtual double share() const = 0;

  // Joins a call. `call.value` is read before Join returns. `done` runs once, inside Join or on
  // another thread; other replicas may share the tensor. Errors: INVALID_ARGUMENT for values that
  // do not fit together, naming both; the error that ended another replica.
  virtual void Join(const ExchangeCall& call, Done done) = 0;
};

// Replaces the runtime's single-replica kernels of the nodes at which replicas meet in `registry`.
void RegisterExchangeKernels(KernelRegistry& registry);

}  // namespace cohort
