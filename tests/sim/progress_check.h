#pragma once

// A run in which one pair of hosts does not reach each other for longer than a lease, and nothing
// else is wrong. The job has to go on: within a bound of the last closure that has ended while the
// rest of the cluster can work without one of the two, and within the same bound of the healing.

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace cohort {

// Thread-compatible.
class ProgressCheck {
 public:
  struct Options {
    absl::Duration lease;
    int workers = 1;
    int workers_min = 1;                           // that can work
    int ps = 0;                                    // 0: variables live on the workers
    absl::Duration absent = absl::ZeroDuration();  // of a process that is killed, at most
  };
  explicit ProgressCheck(Options options) : options_(options) {}

  // Messages from one host to the other, at least, are lost until the time.
  void OnCut(const std::string& from, const std::string& to, absl::Time now, absl::Time until);
  // At any moment: so many closures have ended so far. What is wrong; empty: nothing.
  std::string Check(absl::Time now, uint64_t ended);
  // Whether the two are tasks which the coordinator reaches, so that nobody is to be suspected.
  bool MustHearOfAll() const;

 private:
  // Whether the others can go on without one of the two.
  bool CanWork() const;

  const Options options_;
  std::string from_;  // empty: nothing is cut yet
  std::string to_;
  absl::Time begin_;
  absl::Time end_;
  uint64_t ended_ = 0;
  absl::Time last_;  // when a closure ended
};

}  // namespace cohort
