#pragma once

// The request with which a program schedules a closure: arguments, input, round and steps.
// Programs, data sets and iterators that are registered with the coordinator are handles here,
// whose types only the coordinator knows (closure.h).

#include <cstdint>
#include <memory>
#include <variant>

#include "common/tensor/tensor.h"
#include "coordinator/schedule/remote_value.h"
#include "proto/worker.pb.h"

namespace cohort {

struct RegisteredProgram;
struct RegisteredDataset;
struct RegisteredIterator;

// The id of a closure. Ids count from 1 in the order of scheduling; 0 means no closure.
struct ClosureId {
  uint64_t value = 0;
  friend bool operator==(ClosureId a, ClosureId b) { return a.value == b.value; }
  friend bool operator<(ClosureId a, ClosureId b) { return a.value < b.value; }
};

// An input that names a position in a data set. Every attempt of the closure reads the same
// examples there, on any worker.
struct SplitInput {
  std::shared_ptr<const RegisteredDataset> dataset;
  proto::IteratorPosition position;
};

// The input of a closure: none, the next element of an iterator, or a fixed position in a data set.
// Data sets and iterators are shared, because many closures use the same one.
using InputChoice =
    std::variant<std::monostate, std::shared_ptr<const RegisteredIterator>, SplitInput>;

// An argument of a closure: a tensor, or the result of another closure. Such a result stands for
// all tensors that the other closure fetches, in order.
using Argument = std::variant<Tensor, RemoteValue>;

// The round of a closure in synchronous training. All closures of a round read the same values and
// change the same variables. The pushes of the first `aggregate` closures are applied once, as a
// single update; later pushes of the round are dropped. A Join waits until `aggregate` closures of
// the round have ended, so at least `aggregate` closures must be scheduled before the Join.
struct Round {
  // The round's number, which ascends with closure ids and is the optimizer's step. 0 means no
  // round.
  uint64_t number = 0;
  uint32_t aggregate = 1;
};

// One of the later steps of a closure with several steps. The first step is described by the
// closure itself.
struct LaterStep {
  proto::IteratorPosition position;  // position in the data set of the closure's SplitInput
  double learning_rate = 0;
};

}  // namespace cohort
