#pragma once

// The meetings of the replicas during one run of a program; there are as many meetings as the
// program has nodes that join values. No thread waits: a replica leaves its value and a
// continuation. The last replica to arrive joins the values in the order of ranks (join_replicas.h)
// and gives the result to all.
//
// In a gang of several workers, the last replica of this worker extends the meeting to the other
// workers (group_exchange.h), and the replicas get the result when the group has it. Until then all
// replicas of this worker wait, so none of them can reach the next meeting.
//
// A replica that fails leaves for good: waiting and later replicas get its error. A replica that
// has ended well has been at all meetings, since replicas run the same program. When the group
// fails, all replicas get the group's error. A worker that loses a replica ends the group
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

// The meetings of one run. Thread-safe.
class ReplicaMeeting {
 public:
  // The other workers of the gang, whose replicas take part in the meetings.
  struct OtherWorkers {
    MeetingWorkers workers;
    int64_t replicas = 1;            // number of replicas that meet, on all workers
    std::function<void(Task)> post;  // runs a task later, on a thread that is not the group's
  };

  // Makes one seat for each replica of this worker, with its share (replica_exchange.h). `pool`
  // lends the memory for the values that wait.
  ReplicaMeeting(const std::vector<double>& shares, std::shared_ptr<OutputPool> pool,
                 std::optional<OtherWorkers> others);
  ~ReplicaMeeting();

  // Returns replica `rank`'s end of the meetings. The end lives as long as this object.
  ReplicaExchange& Seat(size_t rank);

  // Notes that replica `rank` has failed. The first error counts.
  void Leave(size_t rank, const absl::Status& error);
  // Returns true if the error of replica `rank` was relayed to it from another replica.
  bool WasRelayed(size_t rank) const;
  // Returns the error that ended the group while replicas waited for the group.
  absl::Status GroupError() const;

 private:
  // The seat of one replica, which leaves its call and its continuation at the next meeting.
  class ReplicaSeat;
  struct Arrival {
    ExchangeCall call;
    ReplicaExchange::Done done;  // continuation of the replica; empty until the replica has arrived
  };

  // A meeting at which all replicas of this worker have arrived.
  struct Meeting {
    ExchangeCall call;  // joint call of all replicas, without its value
    std::vector<int64_t> sizes;
    std::vector<ReplicaExchange::Done> waiting;  // continuations of the replicas, one per rank
    size_t last = 0;                             // rank of the replica that arrived last
  };

  void Join(size_t rank, const ExchangeCall& call, ReplicaExchange::Done done);
  void Meet(std::vector<Arrival> all, size_t last);
  void HandOut(Meeting meeting, absl::StatusOr<WholeExchange> whole);
  void SetGroupError(const absl::Status& error);

  // Pool of the values' memory, shared with the buffers that are lent.
  const std::shared_ptr<OutputPool> pool_;
  const std::optional<OtherWorkers> others_;
  std::vector<std::unique_ptr<ReplicaSeat>> seats_;

  mutable Mutex mutex_;
  // The arrivals of replicas at the next meeting, one per rank.
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
  size_t missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status group_error_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> relayed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
