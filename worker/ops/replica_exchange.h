#pragma once

// Where the replicas of a step meet while they compute. A kernel hands its replica's value over and
// gets what became of the values of all. Replicas run the same program, so their k-th calls belong
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
    kMean,     // of as many as run
    kGather,   // one behind the other along the axis, in the order of replicas
    kSumPart,  // of the sum the part that is this replica's of what was gathered
  };
  Op op = Op::kSum;
  std::string node;  // of the graph: the same on all replicas
  // Of one type on all replicas. A gather: any type; sizes along the axis may differ. Else float32,
  // float64, int32 or int64, of one shape.
  Tensor value;
  int64_t axis = 0;  // of a gather, and of parts
  int64_t size = 0;  // of this replica's part along it
};

// Thread-safe.
class ReplicaExchange {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;

  virtual ~ReplicaExchange() = default;

  // This replica's examples over the mean of all replicas': 1 where they have equally many.
  virtual double share() const = 0;

  // `call.value` is read before this returns. `done` runs once, in this call or on another thread;
  // the tensor may be shared with other replicas. Errors: INVALID_ARGUMENT for values that do not
  // fit together, naming both; of another replica, the error that ended it.
  virtual void Join(const ExchangeCall& call, Done done) = 0;
};

}  // namespace cohort
