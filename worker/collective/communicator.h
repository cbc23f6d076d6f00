#pragma once

// One rank's end of a group of n ranks that do collective operations together. A communicator
// belongs to one generation of the group: when it is aborted it stays so, and whoever re-forms the
// group makes new ones.
//
// Order. The calls of a group are matched by the order in which they are started: the k-th call of
// each rank is sequence number k. Several may be under way at once, and they may complete in any
// order. Who starts calls of one communicator from several threads decides their order.
//
// Progress. Nothing here blocks. An operation moves when its peers' messages arrive, on threads of
// the implementation, and needs none of the caller's. An operation that has started locally
// completes when all ranks that it needs have started it: in a broadcast or a reduction those from
// which it gets and to which it gives something, else all.
//
// Errors. A failure ends the generation, never one operation alone: what is under way and what is
// started later completes with the root cause, the same code and words on every rank. Outputs are
// undefined then. The codes:
//   INVALID_ARGUMENT    a rank made a call that cannot be (CheckCall)
//   FAILED_PRECONDITION the ranks made different calls; the message shows both
//   UNAVAILABLE         a rank was lost; the message and the ErrorDetail name it
//   DEADLINE_EXCEEDED   a call took longer than its timeout; the message names who is missing
//   and whatever Abort was given.
//
// Sums. Where the order of summation shows, it is one balanced binary tree over the ranks
// (reduce_tree.h) in every implementation and algorithm but the ring and NCCL, so results do not
// depend on the transport, on buckets or on sizes. NCCL's order depends on its version, the ranks,
// their GPUs and the sizes. All ranks get the same bits from every one of them.

#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/tensor/tensor.h"
#include "worker/collective/collective_call.h"

namespace cohort {

// Thread-safe.
class Communicator {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // Must not run while a call is under way: Abort, then wait until each is done. Must not be called
  // inside a Done.
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns the memory that this implementation moves fastest, such as a mapping that all ranks of
  // a host share: aligned to 64 bytes, not initialised, released with the last reference, possibly
  // after the communicator. Any other memory works as well. Does not wait for other ranks. Errors:
  // RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) = 0;

  // Starts a call. `done` runs exactly once, on any thread, never inside this call; from then on
  // nothing touches the call's memory, whether the call succeeded or not. The thread may be the one
  // that brings the messages of all calls: `done` may start and abort calls, and hands on longer
  // work.
  virtual void Start(CollectiveCall call, Done done) = 0;

  // Ends the generation on all ranks with this cause, which is not OK. The first counts; of causes
  // on several ranks at the same time all ranks take the same one.
  virtual void Abort(absl::Status root_cause) = 0;
};

}  // namespace cohort
