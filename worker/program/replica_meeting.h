#pragma once

// The replicas of one run of a program meet here, as often as the program has nodes for it. Nobody
// waits with a thread: who comes leaves its value and what to do with the result, and the last one
// to come joins the values, in the order of ranks (join_replicas.h), and hands the result to all.
//
// In a gang of several workers a meeting goes on across them (group_exchange.h) when the last one
// of this worker has come, and the result is handed out when the group has it. Until then all
// replicas of this worker wait, so that none of them can be at the next meeting.
//
// A replica that fails leaves for good: those that wait, and those that come later, get its error.
// Who has ended well has been to all meetings, since replicas run the same program. When the group
// fails, all get its error; whoever loses a replica ends the group (group_sessions.h).

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
  // Where replicas of other workers meet, too.
  struct OtherWorkers {
    MeetingWorkers workers;
    int64_t replicas = 1;            // that meet, on all workers
    std::function<void(Task)> post;  // runs a task later, not on the group's thread
  };

  // One seat for each replica of this worker, with its share (replica_exchange.h). `pool` lends
  // what values are kept in.
  ReplicaMeeting(const std::vector<double>& shares, std::shared_ptr<OutputPool> pool,
                 std::optional<OtherWorkers> others);
  ~ReplicaMeeting();

  // The end of replica `rank`; lives as long as this.
  ReplicaExchange& Seat(size_t rank);

  // Replica `rank` has failed. The first one counts.
  void Leave(size_t rank, const absl::Status& error);
  // Whether the error of the replica is another one's, relayed to it.
  bool WasRelayed(size_t rank) const;
  // What ended the group while replicas waited for it.
  absl::Status GroupError() const;

 private:
  class ReplicaSeat;
  struct Arrival {
    ExchangeCall call;
    ReplicaExchange::Done done;  // none where nobody has come
  };

  // All have come.
  struct Meeting {
    ExchangeCall call;  // of all as one, without the value
    std::vector<int64_t> sizes;
    std::vector<ReplicaExchange::Done> waiting;  // by rank
    size_t last = 0;                             // who came last
  };

  void Join(size_t rank, const ExchangeCall& call, ReplicaExchange::Done done);
  void Meet(std::vector<Arrival> all, size_t last);
  void HandOut(Meeting meeting, absl::StatusOr<WholeExchange> whole);
  void SetGroupError(const absl::Status& error);

  const std::shared_ptr<OutputPool> pool_;  // shared with the buffers that are out
  const std::optional<OtherWorkers> others_;
  std::vector<std::unique_ptr<ReplicaSeat>> seats_;

  mutable Mutex mutex_;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);  // by rank, of the next meeting
  size_t missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status group_error_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> relayed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
