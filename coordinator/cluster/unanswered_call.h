#pragma once

// The error of a call that a task does not answer, although the task answers other calls. The
// likely cause is a network that loses the call's large packets but carries small ones.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/wire/typed_call.h"

namespace cohort {

// The known facts about a call that a task did not answer.
struct UnansweredCall {
  std::string method;
  size_t bytes = 0;  // size of the call's largest request in bytes; 0 if not known
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

// Returns `failure` with another text, which names the call, its size, both tasks, and the path MTU
// as a likely cause. `failure` must be of class PS_LOST or WORKER_LOST and have the task as its
// origin.
absl::Status UnansweredError(const UnansweredCall& call, absl::Duration lasted,
                             const absl::Status& failure);

}  // namespace cohort
