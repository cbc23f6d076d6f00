#pragma once

// The replicas of one run of a program meet here, as often as the program has nodes for it. Nobody
// waits with a thread: who comes leaves its value and what to do with the result, and the last one
// to come joins the values, in the order of ranks (join_replicas.h), and hands the result to all.
//
// A replica that fails leaves for good: those that wait, and those that come later, get its error.
// Who has ended well has been to all meetings, since replicas run the same program.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/runtime/output_pool.h"
#include "worker/ops/replica_exchange.h"

namespace cohort {

// Thread-safe.
class ReplicaMeeting {
 public:
  // One seat for each replica, with its share (replica_exchange.h). `pool` lends what values are
  // kept in.
  ReplicaMeeting(const std::vector<double>& shares, std::shared_ptr<OutputPool> pool);
  ~ReplicaMeeting();

  // The end of replica `rank`; lives as long as this.
  ReplicaExchange& Seat(size_t rank);

  // Replica `rank` has failed. The first one counts.
  void Leave(size_t rank, const absl::Status& error);
  // Whether the replica was told another one's error.
  bool WasTold(size_t rank) const;

 private:
  class ReplicaSeat;
  struct Arrival {
    ExchangeCall call;
    ReplicaExchange::Done done;  // none where nobody has come
  };

  void Join(size_t rank, const ExchangeCall& call, ReplicaExchange::Done done);
  // Of each replica.
  static std::vector<absl::StatusOr<Tensor>> JoinedOf(std::vector<Arrival>& arrivals);

  const std::shared_ptr<OutputPool> pool_;  // shared with the buffers that are out
  std::vector<std::unique_ptr<ReplicaSeat>> seats_;

  mutable Mutex mutex_;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);  // by rank, of the next meeting
  size_t missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
