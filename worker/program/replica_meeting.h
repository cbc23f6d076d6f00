#pragma once

// The meetings of the replicas of one run of a program, as often as the program has nodes for them.
// No thread waits: a replica leaves its value and a continuation, and the last one to come joins
// the values, in the order of ranks (join_replicas.h), and hands the result to all.
//
// In a gang of several workers a meeting goes on across them (group_exchange.h) when the last
// replica of this worker has come, and the result is handed out when the group has it. Until then
// all replicas of this worker wait, so that none of them can be at the next meeting.
//
// A replica that fails leaves for good: waiting and later replicas get its error. A replica that
// has ended well has been to all meetings, since replicas run the same program. When the group
// fails, all get its error; a worker that loses a replica ends the group (group_sessions.h).

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
#include "worker/replicas/exchange_values.h"

namespace cohort {

// Thread-safe.
class ReplicaMeeting {
 public:
  // The workers whose replicas meet, too.
  struct OtherWorkers {
    MeetingWorkers workers;
    int64_t replicas = 1;            // replicas that meet, on all workers
    std::function<void(Task)> post;  // runs a task later, not on the group's thread
  };

  // Makes one seat for each replica of this worker, with its share (replica_exchange.h). `pool`
  // lends the memory of kept values.
  ReplicaMeeting(const std::vector<double>& shares, std::shared_ptr<OutputPool> pool,
                 std::optional<OtherWorkers> others);
  ~ReplicaMeeting();

  // Returns the end of replica `rank`; it lives as long as this.
  ReplicaExchange& Seat(size_t rank);

  // Notes that replica `rank` has failed. The first error counts.
  void Leave(size_t rank, const absl::Status& error);
  // Returns whether the replica's error is another one's, relayed to it.
  bool WasRelayed(size_t rank) const;
  // Returns the error that ended the group while replicas waited for it.
  absl::Status GroupError() const;

 private:
  class ReplicaSeat;
  struct Arrival {
    ExchangeCall call;
    ReplicaExchange::Done done;  // empty until the replica has come
  };

  // A meeting to which all have come.
  struct Meeting {
    ExchangeCall call;  // the joint call, without the value
    std::vector<int64_t> sizes;
    std::vector<ReplicaExchange::Done> waiting;  // one per rank
    size_t last = 0;                             // the rank that came last
  };

  void Join(size_t rank, const ExchangeCall& call, ReplicaExchange::Done done);
  void Meet(std::vector<Arrival> all, size_t last);
  void HandOut(Meeting meeting, absl::StatusOr<WholeExchange> whole);
  void SetGroupError(const absl::Status& error);

  const std::shared_ptr<OutputPool> pool_;  // shared with the buffers that are out
  const std::optional<OtherWorkers> others_;
  std::vector<std::unique_ptr<ReplicaSeat>> seats_;

  mutable Mutex mutex_;
  // arrivals at the next meeting, one per rank
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
  size_t missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status group_error_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> relayed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
