#pragma once

// Code that all transports share: the full names of methods, the errors for calls that a server
// cannot serve, and the limits of a message's size.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

// Returns the full name of a method, for example "/cohort.proto.PsService/Pull".
std::string FullMethodName(const google::protobuf::MethodDescriptor& method);

// The handlers of a server's services, by full method name. It is a programmer error to give a
// handler for a method that the service's descriptor lacks, or a service without a descriptor.
// Immutable; thread-safe.
class MethodTable {
 public:
  explicit MethodTable(const std::vector<Service>& services);

  // Returns the handler of a method, or null if no service has a handler for the method.
  const Handler* Find(absl::string_view full_name) const;
  // Returns the function by which the method's handler offers memory for a request's payload
  // (FindPlace), or null if the handler has none.
  const FindPlace* FindPlaceOf(absl::string_view full_name) const;
  // Returns the receive budget of the service that declares the method, or null if the service has
  // none.
  ByteBudget* ReceiveBudgetOf(absl::string_view full_name) const;

 private:
  struct Method {
    Handler handler;
    FindPlace find_place;  // offers the handler's memory for a payload; empty: none
    std::shared_ptr<ByteBudget> receive_budget;
  };
  const Method* MethodOf(absl::string_view full_name) const;

  std::map<std::string, Method, std::less<>> methods_;
};

// Returns `wait`, limited to between zero and a year, so that a clock can add the wait to a time
// without overflow.
absl::Duration BoundedWait(absl::Duration wait);

// Returns the error of a call whose deadline has passed: DEADLINE_EXCEEDED naming the method.
absl::Status NoAnswerInTime(absl::string_view method);

// Returns the error of a call to a method that the server does not serve: UNIMPLEMENTED naming the
// method and the server's address.
absl::Status UnknownMethod(absl::string_view method, absl::string_view address);

// Checks that a message has at most `bytes_max` bytes, and its header at most kHeaderBytesMax.
// Errors: RESOURCE_EXHAUSTED naming the sizes and the limits.
absl::Status CheckSize(const Message& message, size_t bytes_max);

}  // namespace cohort
