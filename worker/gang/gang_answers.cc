#include "worker/gang/gang_answers.h"

#include "common/wire/error_detail.h"

namespace cohort {

namespace {

absl::Status HasEnded() {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   "this synchronous step has ended here before, and its answer was given",
                   proto::STALE);
}

}  // namespace

GangAnswers::Place GangAnswers::PlaceOf(const proto::RunClosureRequest& request) {
  return {{request.epoch(), request.gang().generation()}, request.gang().sequence()};
}

bool GangAnswers::HasEndedLocked(const Place& place) const {
  // Ended gangs are known for the newest generation only. A gang of an older generation is not
  // reported as ended here; GangLine refuses it.
  if (place.first != newest_) return false;
  return place.second < ended_below_ || ended_.count(place.second) > 0;
}

bool GangAnswers::Begin(const proto::RunClosureRequest& request, Replied reply) {
  const Place place = PlaceOf(request);
  {
    MutexLock lock(mutex_);
    // The gangs of a newer generation are numbered from 1 again.
    if (place.first > newest_) {
      newest_ = place.first;
      ended_below_ = 1;
      ended_.clear();
    }
    if (!HasEndedLocked(place)) {
      std::vector<Replied>& replies = running_[place];
      replies.push_back(std::move(reply));
      // Only the first copy of a request runs; later copies wait for its answer.
      return replies.size() == 1;
    }
  }
  // `reply` is called outside the lock, because it sends the answer and may run other code.
  reply(HasEnded());
  return false;
}

void GangAnswers::End(const proto::RunClosureRequest& request, Answer answer) {
  const Place place = PlaceOf(request);
  std::vector<Replied> replies;
  {
    MutexLock lock(mutex_);
    const auto running = running_.find(place);
    if (running == running_.end()) return;
    replies = std::move(running->second);
    running_.erase(running);
    // A closure of several steps takes one sequence number for each step.
    for (int step = 0; place.first == newest_ && step <= request.later_steps_size(); ++step) {
      ended_.insert(place.second + static_cast<uint64_t>(step));
    }
    // ended_below_ moves up to the first gang that has not ended, and ended_ keeps the gangs above
    // it that have ended.
    while (ended_.erase(ended_below_) > 0) ++ended_below_;
  }
  // The replies are called outside the lock. The first copy is answered last, because the answer is
  // moved into its reply.
  for (size_t i = 1; i < replies.size(); ++i) replies[i](answer);
  replies[0](std::move(answer));
}

}  // namespace cohort
