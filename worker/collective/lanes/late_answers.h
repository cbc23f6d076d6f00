#pragma once

// Answers to frames that nobody waits for. An answer says that more frames may be sent and that a
// call may retire; neither is urgent as a rule, and over gRPC it costs about as much as a frame. So
// a receiver answers four frames of a sender at a time, or fewer when one comes whose sender waits.
// That is half of what a sender may have unanswered in one operation, so it never waits for a frame
// whose answer is held. Internal to worker/collective.

#include <vector>

#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// The held answers of one receiver. Thread-compatible.
class LateAnswers {
 public:
  static constexpr size_t kFramesToAnswer = 4;

  explicit LateAnswers(int size) : held_(static_cast<size_t>(size)) {}

  // Notes that a frame of this rank has been taken.
  void Taken(int from, bool may_wait, Consumed consumed);
  // Answers all that are held.
  void Release();

 private:
  std::vector<std::vector<Consumed>> held_;  // one list per rank
};

}  // namespace cohort
