#pragma once

// One rank's end of a group of n ranks that do collective operations together. A communicator
// belongs to one generation of its group. An aborted communicator stays aborted; to form the group
// again, all ranks make new communicators.
//
// Order. The calls of a group are matched by the order in which each rank starts them: the k-th
// call of each rank has sequence number k. Several calls may be under way at once, and may complete
// in any order. A rank that starts calls from several threads must itself give them the same order
// as the other ranks.
//
// Progress. No method blocks. An operation advances when messages of other ranks arrive, on threads
// of the implementation. It completes when all ranks that it needs have started the same call: in a
// broadcast or a reduce, a rank needs only the ranks from which it gets or to which it sends
// elements; in every other operation, it needs all ranks.
//
// Errors. A failure ends the whole generation, never one operation alone. Calls that are under way,
// and calls that are started later, complete with the root cause, with the same code and words on
// every rank. The outputs of failed calls are undefined. The codes:
//   INVALID_ARGUMENT    a rank made a call that is not valid (CheckCall)
//   FAILED_PRECONDITION the ranks made different calls; the message shows two of the calls
//   UNAVAILABLE         a rank was lost; the message and the ErrorDetail name the rank
//   DEADLINE_EXCEEDED   a call took longer than its timeout; the message names the missing ranks
//   and the code of the cause that was passed to Abort.
//
// Sums. Where a result depends on the order of summation, the order is one balanced binary tree
// over the ranks (reduce_tree.h), in every implementation and algorithm but the ring and NCCL. So
// results do not depend on the transport, on buckets or on sizes. NCCL's order depends on NCCL's
// version, the ranks, their GPUs and the sizes. Each implementation and algorithm gives all ranks
// the same bits.

#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "worker/collective/collective_call.h"

namespace cohort {

// One rank's end of one generation of a group. Thread-safe.
class Communicator {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // Destroys the communicator. No call may be under way: the owner calls Abort() and then waits
  // until each call is done. The destructor must not run inside a Done.
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns memory of the kind that this implementation moves fastest, such as a mapping that all
  // ranks of a host share. The memory is aligned to 64 bytes and not initialised. It is released
  // with the last reference, which may outlive the communicator. Calls also accept any other
  // memory. Allocate() does not wait for other ranks. Errors: RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) = 0;

  // Starts a call. `done` runs exactly once, on any thread, never inside Start(). When `done` runs,
  // the implementation no longer touches the call's memory, whether the call succeeded or failed.
  // The thread of `done` may be the one that receives the messages of all calls: `done` may start
  // calls and abort the group, and must pass longer work on to another thread.
  virtual void Start(CollectiveCall call, Done done) = 0;

  // Ends the generation on all ranks with `root_cause`, which must not be OK. The first cause
  // counts; if several ranks find causes at the same time, all ranks take the same one.
  virtual void Abort(absl::Status root_cause) = 0;
};

}  // namespace cohort
