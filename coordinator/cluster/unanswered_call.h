#pragma once

// A call that a task does not answer although it is there, and answers others: the network carries
// some bytes between the two and not these.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/wire/typed_call.h"

namespace cohort {

// The known facts of such a call.
struct UnansweredCall {
  std::string method;
  size_t bytes = 0;  // bytes of its largest request; 0: not known
};

// Returns the last part of the path of a method: "Pull" of "/cohort.proto.PsService/Pull".
std::string MethodName(absl::string_view path);

// Bytes of the largest.
template <typename Request>
size_t LargestOf(const std::vector<Envelope<Request>>& requests) {
  size_t largest = 0;
  for (const Envelope<Request>& request : requests) {
    largest = std::max(largest, request.header.ByteSizeLong() + PayloadBytes(request.payload));
  }
  return largest;
}

// Returns how long a call may take: `silence` and the time that its bytes need at a megabyte a
// second, so that a call that makes progress is not given up.
absl::Duration TimeFor(absl::Duration silence, size_t bytes);

// Returns `failure`, of class PS_LOST or WORKER_LOST with the task as origin, with the call, its
// bytes, both ends, and the path MTU as a likely cause.
absl::Status UnansweredError(const UnansweredCall& call, absl::Duration lasted,
                             const absl::Status& failure);

}  // namespace cohort
