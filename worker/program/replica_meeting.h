#pragma once

// The meetings of the replicas during one run of a program. At a meeting, the replicas join their
// values for one node of the program, such as an AllReduce. No thread waits: a replica leaves its
// value and a continuation. The last replica to arrive joins the values in the order of the
// replicas (join_replicas.h) and gives the result to all.
//
// In a gang of several workers, the last replica of this worker to arrive sends the joined value to
// the other workers (group_exchange.h), and the replicas get the result when the group has it.
// Until then all replicas of this worker wait, so none of them can reach the next meeting.
//
// A replica that fails comes to no further meeting, and its error goes to the replicas that wait
// for it or arrive later. A replica that has ended well has been at all meetings, since replicas
// run the same program. When the group fails, all replicas get the group's error. A worker that
// loses a replica ends the group (group_sessions.h).

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
  // The gang's other workers, whose replicas take part in the meetings.
  struct OtherWorkers {
    MeetingWorkers workers;
    int64_t replicas = 1;  // number of replicas that meet, on all workers together
    // Runs a task later, on a thread that is not the communicator's.
    std::function<void(Task)> post;
  };

  // Makes the meetings of this worker's replicas: one replica per entry of `shares`
  // (ReplicaExchange::share). `pool` lends memory for the values of replicas that wait. `others` is
  // empty unless other workers take part.
  ReplicaMeeting(const std::vector<double>& shares, std::shared_ptr<OutputPool> pool,
                 std::optional<OtherWorkers> others);
  ~ReplicaMeeting();

  // Returns the object through which the replica number `rank` of this worker takes part in the
  // meetings. The object lives as long as this ReplicaMeeting.
  ReplicaExchange& Seat(size_t rank);

  // Notes that replica `rank` has failed, and gives `error` to all replicas that wait at a meeting.
  // Only the first error of a run counts.
  void Leave(size_t rank, const absl::Status& error);
  // Returns true if replica `rank` failed because it got the error of another replica.
  bool WasRelayed(size_t rank) const;
  // Returns the error with which the exchange with the other workers failed, or OK.
  absl::Status GroupError() const;

 private:
  // The object through which one replica takes part in the meetings.
  class ReplicaSeat;
  struct Arrival {
    ExchangeCall call;
    // Continuation of the replica; empty if the replica has not arrived.
    ReplicaExchange::Done done;
  };

  // A meeting at which all replicas of this worker have arrived and which has no result yet.
  struct Meeting {
    ExchangeCall call;  // joined call of this worker's replicas, without its value
    std::vector<int64_t> sizes;
    // Continuations of the replicas, by number of the replica.
    std::vector<ReplicaExchange::Done> waiting;
    size_t last = 0;  // number of the replica that arrived last
  };

  void Join(size_t rank, const ExchangeCall& call, ReplicaExchange::Done done);
  void Meet(std::vector<Arrival> all, size_t last);
  void HandOut(Meeting meeting, absl::StatusOr<WholeExchange> whole);
  void SetGroupError(const absl::Status& error);

  // Lends the memory for the values of waiting replicas; shared with the buffers that it has lent.
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
