#pragma once

// Code that all transports share: full method names, the answers of a server that cannot serve a
// call, and the size limit of a message.

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

// Handlers by full method name. It is a programmer error to give a handler for a method that the
// service's descriptor lacks, or a service without descriptor. Immutable; thread-safe.
class MethodTable {
 public:
  explicit MethodTable(const std::vector<Service>& services);

  // Returns the handler of a method, or null for a method that is not served.
  const Handler* Find(absl::string_view full_name) const;
  // Returns the function that finds memory of a method's handler for a payload (FindPlace), or null
  // for a method without one.
  const FindPlace* FindPlaceOf(absl::string_view full_name) const;
  // Returns the receive budget of the method's service, or null if it has none.
  ByteBudget* ReceiveBudgetOf(absl::string_view full_name) const;

 private:
  struct Method {
    Handler handler;
    FindPlace find_place;  // finds the handler's memory for payloads; empty if there is none
    std::shared_ptr<ByteBudget> receive_budget;
  };
  const Method* MethodOf(absl::string_view full_name) const;

  std::map<std::string, Method, std::less<>> methods_;
};

// Clamps a wait to between zero and a year, so that clocks can add the wait to a time without
// overflow.
absl::Duration BoundedWait(absl::Duration wait);

// Returns the error of a call whose deadline has passed: DEADLINE_EXCEEDED naming the method.
absl::Status NoAnswerInTime(absl::string_view method);

// Returns UNIMPLEMENTED naming the method and the server's address.
absl::Status UnknownMethod(absl::string_view method, absl::string_view address);

// Checks a message against the limits of message and header. Errors: RESOURCE_EXHAUSTED naming the
// size and the limit.
absl::Status CheckSize(const Message& message, size_t bytes_max);

}  // namespace cohort
