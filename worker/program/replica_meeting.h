#pragma once

// The meetings of the replicas during one run of a program. At a meeting, the replicas join their
// values for one node of the program, such as an AllReduce. No thread waits: a replica leaves its
// value and a continuation. The last replica to arrive joins the values in the order of ranks
// (join_replicas.h) and gives the result to all.
//
// In a gang of several workers, the last replica of this worker sends the joined value on to the
// other workers (group_exchange.h), and the replicas get the result when the group has it. Until
// then all replicas of this worker wait, so none of them can reach the next meeting.
//
// A replica that fails takes part in no further meeting: waiting and later replicas get its error.
// A replica that has ended well has been at all meetings, since replicas run the same program. When
// the group fails, all replicas get the group's error. A worker that loses a replica ends the group
// (group_sessions.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/runtime/kernel/output_pool.h"
#include "worker/gang/group_exchange.h"
#include "worker/ops/replica_exchange.h"

namespace cohort {

// The meetings of the replicas during one run of a program. Thread-safe.
class ReplicaMeeting {
 public:
  // The other workers of the gang, whose replicas take part in the meetings.
  struct OtherWorkers {
    MeetingWorkers workers;
    int64_t replicas = 1;  // number of replicas that meet, on all workers
    // Runs a task later, on a thread that does not belong to the group's communicator.
    std::function<void(Task)> post;
  };

  // Makes the meetings of as many local replicas as `shares` has entries (ReplicaExchange::share).
  // `pool` lends the memory for the values of replicas that wait.
  ReplicaMeeting(const std::vector<double>& shares, std::shared_ptr<OutputPool> pool,
                 std::optional<OtherWorkers> others);
  ~ReplicaMeeting();

  // Returns the object through which replica `rank` takes part in the meetings. The object lives as
  // long as this ReplicaMeeting.
  ReplicaExchange& Seat(size_t rank);

  // Notes that replica `rank` has failed, and gives the error to all waiting replicas. Only the
  // first error counts.
  void Leave(size_t rank, const absl::Status& error);
  // Returns true if the error of replica `rank` was relayed to it from another replica.
  bool WasRelayed(size_t rank) const;
  // Returns the error with which the exchange with the other workers failed, or OK.
  absl::Status GroupError() const;

 private:
  // The object through which one replica takes part in the meetings.
  class ReplicaSeat;
  struct Arrival {
    ExchangeCall call;
    ReplicaExchange::Done done;  // continuation of the replica; empty until the replica has arrived
  };

  // A meeting at which all replicas of this worker have arrived and wait for the result.
  struct Meeting {
    ExchangeCall call;  // call of all replicas at this meeting, without its value
    std::vector<int64_t> sizes;
    std::vector<ReplicaExchange::Done> waiting;  // continuations of the replicas, one per rank
    size_t last = 0;                             // rank of the replica that arrived last
  };

  void Join(size_t rank, const ExchangeCall& call, ReplicaExchange::Done done);
  void Meet(std::vector<Arrival> all, size_t last);
  void HandOut(Meeting meeting, absl::StatusOr<WholeExchange> whole);
  void SetGroupError(const absl::Status& error);

  // Pool that lends the memory for replicas' values; shared with the lent buffers.
  const std::shared_ptr<OutputPool> pool_;
  const std::optional<OtherWorkers> others_;
  std::vector<std::unique_ptr<ReplicaSeat>> seats_;

  mutable Mutex mutex_;
  // The calls and continuations of the replicas that have arrived at the next meeting, by rank.
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
  size_t missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status group_error_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> relayed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
