#include "coordinator/schedule/closure.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"

namespace cohort {

void Closure::TakeSteps(size_t steps, FetchedTensors fetches) {
  steps_done += steps;
  for (Tensor& tensor : fetches) fetched.push_back(std::move(tensor));
  // The recorded attempts failed at a step that has now ended well, so they say nothing about the
  // next step.
  record = AttemptRecord();
}

void Closure::ForgetSteps() {
  steps_done = 0;
  fetched.clear();
}

absl::Status LostForGood(const Closure& closure, absl::string_view why) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::APPLICATION);
  detail.set_closure_id(closure.id.value);
  detail.set_attempt(closure.attempt);
  return WithDetail(
      absl::DataLossError(absl::StrCat("closure ", closure.id.value, " is lost: ", why,
                                       ", and it was scheduled as one that must not run again")),
      detail);
}

}  // namespace cohort
