#pragma once

// The part that the transports share: full method names, the answers of a server that cannot serve
// a call, and the limit of a message.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

// Returns "/cohort.proto.PsService/Pull".
std::string FullMethodName(const google::protobuf::MethodDescriptor& method);

// Handlers by full method name. A handler for a method that its descriptor lacks, or a service
// without descriptor, is a programmer error. Immutable; thread-safe.
class MethodTable {
 public:
  explicit MethodTable(const std::vector<Service>& services);

  // Returns null for a method that is not served.
  const Handler* Find(absl::string_view full_name) const;
  // Returns null for a method without one.
  const FindPlace* FindPlaceOf(absl::string_view full_name) const;
  // Puts the payload of a request that is here where the method wants it, if it does: what a
  // transport does while it receives.
  void ReceiveInPlace(absl::string_view full_name, Message& request) const;
  // Returns the receive budget of the method's service, or null if it has none.
  ByteBudget* ReceiveBudgetOf(absl::string_view full_name) const;

 private:
  struct Method {
    Handler handler;
    FindPlace find_place;  // may be empty
    std::shared_ptr<ByteBudget> receive_budget;
  };
  const Method* MethodOf(absl::string_view full_name) const;

  std::map<std::string, Method, std::less<>> methods_;
};

// Returns a wait that clocks can add to a time without overflow: between zero and a year.
absl::Duration BoundedWait(absl::Duration wait);

// Returns the error of a call whose time is over: DEADLINE_EXCEEDED naming the method.
absl::Status NoAnswerInTime(absl::string_view method);

// Returns UNIMPLEMENTED naming both.
absl::Status UnknownMethod(absl::string_view method, absl::string_view address);

// Errors: RESOURCE_EXHAUSTED naming the size and the limit.
absl::Status CheckSize(const Message& message, size_t bytes_max);

}  // namespace cohort
