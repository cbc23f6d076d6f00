#pragma once

// The record of how a closure's attempts ended. Three counts bound how often it runs:
//
//   faults:     a worker that ran it answered that it failed, and that another try may end better;
//   malformed:  a message about it could not be read;
//   casualties: worker processes that ended in calls that ran it.
//
// A call that ended without an answer is no fault: the network may have broken, and the network
// heals. Whether its worker process has ended is known later: when the worker is given up, or comes
// back as another process. A process that comes back itself has not ended. Only the attempt that
// ends now counts before that is known.

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
  // A closure with as many unreadable messages fails.
  static constexpr uint32_t kMalformedMax = 3;

  // Both return the new number.
  uint32_t AddFault() { return ++faults_; }
  uint32_t AddMalformed() { return ++malformed_; }

  // Records that a worker which is there has not answered a call that gives it what the closure
  // needs; calls in a row have been silent `for_so_long` now, and `error` would be the closure's.
  void AddSilence(absl::Duration for_so_long, absl::Status error);
  void EndSilence();  // one was answered
  absl::Duration silent_for() const { return silent_for_; }
  // Returns the error of silence that has lasted `silence_max`, else OK.
  absl::Status Silence(absl::Duration silence_max) const;

  // Records that the attempt's call to this process ended without an answer. A process counts once.
  void AddUnanswered(uint32_t attempt, const proto::TaskRef& process, const absl::Status& cause);
  bool HasUnanswered(uint32_t attempt) const;
  // Notes that the process was given up: it is gone, or has been silent for a lease.
  void OnGivenUp(const proto::TaskRef& process);
  // Notes that the worker serves as this process, so its other processes have ended.
  void OnServing(const proto::TaskRef& process);

  // Returns true if the closure counts as the cause of the casualties: of `after` attempts, and of
  // at least two workers, because one that keeps crashing is its own cause. `only_worker`: there is
  // no other to compare with. `ends_now`: an attempt whose unanswered calls count as casualties; 0:
  // none.
  bool IsPoison(size_t after, bool only_worker, uint32_t ends_now) const;
  // Returns "3 worker processes ended with it: worker:0 (incarnation 1): connection reset; …".
  std::string Casualties(uint32_t ends_now) const;

 private:
  struct Unanswered {
    uint32_t attempt = 0;
    proto::TaskRef process;
    absl::Status cause;
    bool ended = false;  // the process, as far as is known
  };

  uint32_t faults_ = 0;
  uint32_t malformed_ = 0;
  uint32_t silences_ = 0;  // silent calls in a row
  absl::Duration silent_for_;
  absl::Status silence_;                // the error of the last one
  std::vector<Unanswered> unanswered_;  // one for each process
};

}  // namespace cohort
