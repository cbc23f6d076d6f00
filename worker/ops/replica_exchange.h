#pragma once

// The place where the replicas of a step meet while they compute. A kernel hands its replica's
// value over and gets the joint result. Replicas run the same program, so their k-th calls belong
// together; each waits, without a thread, until the last one has come.
//
// RunContext carries a replica's own end to the kernels; the runtime does not look inside.

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct ExchangeCall {
  enum class Op {
    kSum,
    kMean,     // mean over the replicas that run
    kGather,   // one behind the other along the axis, in the order of replicas
    kSumPart,  // the part of the sum that belongs to what this replica gathered
  };
  Op op = Op::kSum;
  std::string node;  // the node in the graph: the same on all replicas
  // The replica's value, of one type on all replicas. For a gather: any type; sizes along the axis
  // may differ. Otherwise float32, float64, int32 or int64, of one shape.
  Tensor value;
  int64_t axis = 0;  // for a gather and for parts
  int64_t size = 0;  // size of this replica's part along the axis
};

// Thread-safe.
class ReplicaExchange {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;

  virtual ~ReplicaExchange() = default;

  // Returns this replica's examples over the mean of all replicas': 1 if they have equally many.
  virtual double share() const = 0;

  // Joins a call. `call.value` is read before this returns. `done` runs once, in this call or on
  // another thread; the tensor may be shared with other replicas. Errors: INVALID_ARGUMENT for
  // values that do not fit together, naming both; the error that ended another replica.
  virtual void Join(const ExchangeCall& call, Done done) = 0;
};

}  // namespace cohort
