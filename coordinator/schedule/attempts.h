#pragma once

// The record of how a closure's attempts ended. Three counts limit how often the closure runs:
//
//   faults: answers of workers which say that an attempt failed, while another may succeed;
//
//   malformed: messages about the closure that could not be read;
//
//   casualties: worker processes that ended during calls that ran the closure.
//
// A call that ended without an answer is not a fault: the network may have broken for a while.
// Whether the worker process has ended is known only later. If the worker is given up, or comes
// back as another process, the process has ended; if the same process serves again, it has not.
// Until this is known, the unanswered call counts as a casualty only for the attempt that ends now.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/error.pb.h"

namespace cohort {

// The record of the attempts of one closure. Thread-compatible.
class AttemptRecord {
 public:
  // The number of unreadable messages about a closure at which the closure fails.
  static constexpr uint32_t kMalformedMax = 3;
  // The number of set-up calls in a row that must be silent before their silence ends the closure.
  // One call with many bytes may be silent for all of the time by itself, so that fewer would let
  // two lost messages end the job.
  static constexpr uint32_t kSilentCallsMin = 3;

  // Count one more fault, or one more malformed message, of the closure. Return the new count.
  uint32_t AddFault() { return ++faults_; }
  uint32_t AddMalformed() { return ++malformed_; }

  // Records that a worker has not answered a set-up call, which gives the worker what the closure
  // needs, between `start` and `now`. Returns for how long no set-up call of the closure has been
  // answered: since the start of the first silent call in a row.
  absl::Duration AddSilence(absl::Time start, absl::Time now);
  // Sets the error that the closure gets if its set-up is silent for too long.
  void SetSilenceError(absl::Status error) { silence_ = std::move(error); }
  void EndSilence() { silences_ = 0; }  // notes that a set-up call was answered
  // Returns the error of the last unanswered set-up call if kSilentCallsMin or more set-up calls in
  // a row have been silent, within `silence_max` or more; otherwise returns OK.
  absl::Status Silence(absl::Duration silence_max) const;

  // Records that the call of attempt `attempt` to this worker process ended without an answer.
  // Several unanswered calls to one process count once.
  void AddUnanswered(uint32_t attempt, const proto::TaskRef& process, const absl::Status& cause);
  bool HasUnanswered(uint32_t attempt) const;
  // Notes that the worker process was given up: it is gone, or has been silent for a lease.
  void OnGivenUp(const proto::TaskRef& process);
  // Notes that the worker now serves as `process`, so the worker's earlier processes have ended.
  void OnServing(const proto::TaskRef& process);

  // Returns whether the closure is taken to be the cause of its casualties. This is so if the
  // casualties belong to at least `after` attempts and to at least two workers: a single worker
  // that keeps crashing is taken to be the cause itself. If `only_worker` is true, the job has a
  // single worker, and one worker is enough. Unanswered calls of the attempt `ends_now` already
  // count as casualties; 0 names no attempt.
  bool IsPoison(size_t after, bool only_worker, uint32_t ends_now) const;
  // Returns a text like "3 worker processes ended with it: worker:0 (incarnation 1): connection
  // reset; …".
  std::string Casualties(uint32_t ends_now) const;

 private:
  struct Unanswered {
    uint32_t attempt = 0;
    proto::TaskRef process;
    absl::Status cause;
    bool ended = false;  // whether the process is known to have ended
  };

  uint32_t faults_ = 0;
  uint32_t malformed_ = 0;
  uint32_t silences_ = 0;    // number of unanswered set-up calls in a row
  absl::Time silent_since_;  // the start of the first of them
  absl::Duration silent_for_;
  absl::Status silence_;                // the error of the last unanswered set-up call
  std::vector<Unanswered> unanswered_;  // unanswered calls; at most one entry per worker process
};

}  // namespace cohort
