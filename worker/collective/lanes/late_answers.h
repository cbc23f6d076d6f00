#pragma once

// Answers to frames that may be given later. An answer tells the sender that it may send more
// frames, and that a call may retire. As a rule neither is urgent, and over gRPC an answer costs
// about as much as a frame. So a receiver answers four frames of a sender at a time; if a frame
// comes whose sender does not let the answer wait, it answers all. Four is half of the frames that
// a sender may have unanswered in one operation, so no sender waits because answers are held back.
// Internal to worker/collective.

#include <vector>

#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// The answers that one receiver holds back. Thread-compatible.
class LateAnswers {
 public:
  static constexpr size_t kFramesToAnswer = 4;

  explicit LateAnswers(int size) : held_(static_cast<size_t>(size)) {}

  // Notes that the receiver has accepted a frame of rank `from`. `consumed` sends the answer: later
  // if `may_wait`, else now, after all held answers to that rank.
  void Taken(int from, bool may_wait, Consumed consumed);
  // Sends all answers that are held back.
  void Release();

 private:
  std::vector<std::vector<Consumed>> held_;  // the held answers, by the rank that gets them
};

}  // namespace cohort
