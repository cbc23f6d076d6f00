#pragma once

// The error of a call that a task does not answer although it answers other calls. The likely cause
// is a network that loses this call's large packets but carries smaller ones.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/wire/typed_call.h"

namespace cohort {

// The known facts about a call that got no answer.
struct UnansweredCall {
  std::string method;
  size_t bytes = 0;  // bytes of the call's largest request; 0: not known
};

// Returns the name of a method without its path: "Pull" for "/cohort.proto.PsService/Pull".
std::string MethodName(absl::string_view path);

// Returns the size in bytes of the largest of the requests.
template <typename Request>
size_t LargestOf(const std::vector<Envelope<Request>>& requests) {
  size_t largest = 0;
  for (const Envelope<Request>& request : requests) {
    largest = std::max(largest, request.header.ByteSizeLong() + PayloadBytes(request.payload));
  }
  return largest;
}

// Returns the size in bytes of the largest of the answers that the requests expect.
template <typename Request>
size_t LargestAnswerTo(const std::vector<Envelope<Request>>& requests) {
  size_t largest = 0;
  for (const Envelope<Request>& request : requests) {
    largest = std::max(largest, request.answer_bytes);
  }
  return largest;
}

// Returns how long a call may be silent: `silence`, plus the time that `bytes` of its request need
// at a megabyte per second, because the task has to work on them. A call whose bytes move may take
// longer, up to LongestTime (common/wire/moved_bytes.h).
absl::Duration TimeFor(absl::Duration silence, size_t bytes);

// Returns `failure` with a text that names the call, its bytes, both tasks, and the path MTU as a
// likely cause. `failure` is of class PS_LOST or WORKER_LOST and has the task as origin.
absl::Status UnansweredError(const UnansweredCall& call, absl::Duration lasted,
                             const absl::Status& failure);

}  // namespace cohort
