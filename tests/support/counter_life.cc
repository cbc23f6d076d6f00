#include "tests/support/counter_life.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "tests/support/counter.h"

namespace cohort {

absl::Status CounterLife::Begin() {
  ASSIGN_OR_RETURN(Counter counter, MakeCounter(coordinator_));
  counter_ = std::move(counter.variable);
  increment_ = std::move(counter.increment);
  ASSIGN_OR_RETURN(left_, coordinator_.ResumeState());
  if (left_.has_value()) {
    done_before_ = left_->next_id() - 1 - static_cast<uint64_t>(left_->open_size());
  }
  return absl::OkStatus();
}

absl::Status CounterLife::ScheduleWhatIsLeft() {
  for (uint64_t id = coordinator_.NextId().value; id <= increments_; ++id) {
    if (left_.has_value() && id < left_->next_id()) {
      const auto& open = left_->open();
      if (!std::binary_search(open.begin(), open.end(), id)) continue;
    }
    if (coordinator_.NextId().value < id) coordinator_.SkipTo(ClosureId{id});
    ASSIGN_OR_RETURN(RemoteValue result, coordinator_.Schedule(increment_, {}));
    results_.push_back(std::move(result));
  }
  return absl::OkStatus();
}

absl::StatusOr<float> CounterLife::Finish() {
  for (const RemoteValue& result : results_) {
    ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator_.Fetch(result));
    if (fetched.size() != 1) return absl::InternalError("a closure fetched nothing");
  }
  ASSIGN_OR_RETURN(const Tensor value, coordinator_.Read(*counter_));
  return *value.data<float>();
}

}  // namespace cohort
