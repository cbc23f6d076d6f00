#pragma once

// The record of how a closure's attempts ended. Three counts bound how often the closure runs:
//
//   faults:     answers of workers that an attempt failed and that another attempt may end better;
//   malformed:  messages about the closure that could not be read;
//   casualties: worker processes that ended during calls that ran the closure.
//
// A call that ended without an answer is not a fault: the network may have broken, and the network
// heals. Whether the worker process has ended is known only later: when the worker is given up, or
// comes back as another process. A process that comes back itself has not ended. Until the end of a
// process is known, its unanswered call counts as a casualty only for the attempt that ends now.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/error.pb.h"

namespace cohort {

// Thread-compatible.
class AttemptRecord {
 public:
  // How many unreadable messages about a closure make the closure fail.
  static constexpr uint32_t kMalformedMax = 3;

  // Count a fault, or a malformed message, and return the new count.
  uint32_t AddFault() { return ++faults_; }
  uint32_t AddMalformed() { return ++malformed_; }

  // Records that a running worker has not answered a set-up call, which gives the worker what the
  // closure needs. Set-up calls in a row have now been silent for `for_so_long`; `error` becomes
  // the closure's error if that is too long.
  void AddSilence(absl::Duration for_so_long, absl::Status error);
  void EndSilence();  // a set-up call was answered, which ends the silence
  absl::Duration silent_for() const { return silent_for_; }
  // Returns the error of the last unanswered set-up call if set-up calls have been silent for
  // `silence_max`, else OK.
  absl::Status Silence(absl::Duration silence_max) const;

  // Records that the attempt's call to this process ended without an answer. Calls to one process
  // count once.
  void AddUnanswered(uint32_t attempt, const proto::TaskRef& process, const absl::Status& cause);
  bool HasUnanswered(uint32_t attempt) const;
  // Notes that the process was given up: the process is gone, or has been silent for a lease.
  void OnGivenUp(const proto::TaskRef& process);
  // Notes that the worker serves as this process, so the worker's earlier processes have ended.
  void OnServing(const proto::TaskRef& process);

  // Returns true if the closure counts as the cause of its casualties: they belong to at least
  // `after` attempts and to at least two workers, because a single worker that keeps crashing is
  // its own cause. `only_worker` says that the job has a single worker, so there is no other to
  // compare with. Unanswered calls of the attempt `ends_now` count as casualties already; 0 names
  // no attempt.
  bool IsPoison(size_t after, bool only_worker, uint32_t ends_now) const;
  // Returns a text like "3 worker processes ended with it: worker:0 (incarnation 1): connection
  // reset; …".
  std::string Casualties(uint32_t ends_now) const;

 private:
  struct Unanswered {
    uint32_t attempt = 0;
    proto::TaskRef process;
    absl::Status cause;
    bool ended = false;  // true once the process is known to have ended
  };

  uint32_t faults_ = 0;
  uint32_t malformed_ = 0;
  uint32_t silences_ = 0;  // unanswered set-up calls in a row
  absl::Duration silent_for_;
  absl::Status silence_;                // the error of the last unanswered set-up call
  std::vector<Unanswered> unanswered_;  // at most one entry for each worker process
};

}  // namespace cohort
