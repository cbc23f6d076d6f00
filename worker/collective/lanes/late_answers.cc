#include "worker/collective/lanes/late_answers.h"

#include <utility>

namespace cohort {

namespace {

void AnswerAll(std::vector<Consumed>& held) {
  // The held answers are taken out first, because sending one may bring the next frame.
  for (Consumed& consumed : std::exchange(held, {})) consumed(absl::OkStatus());
}

}  // namespace

void LateAnswers::Taken(int from, bool may_wait, Consumed consumed) {
  std::vector<Consumed>& held = held_[static_cast<size_t>(from)];
  held.push_back(std::move(consumed));
  // All held answers to the sender go out if it needs this answer now, or if kFramesToAnswer are
  // held.
  if (!may_wait || held.size() == kFramesToAnswer) AnswerAll(held);
}

void LateAnswers::Release() {
  for (std::vector<Consumed>& held : held_) AnswerAll(held);
}

}  // namespace cohort
