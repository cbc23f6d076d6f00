#include "common/wire/method_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

std::string FullMethodName(const google::protobuf::MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

MethodTable::MethodTable(const std::vector<Service>& services) {
  for (const Service& service : services) {
    COHORT_CHECK(service.descriptor != nullptr, "a service has a descriptor");
    for (const auto& [name, handler] : service.handlers) {
      const auto* method = service.descriptor->FindMethodByName(name);
      COHORT_CHECK(method != nullptr, "the service declares the method of each handler");
      // Most handlers offer no memory for a payload; the transport then takes memory of its own.
      const auto place = service.places.find(name);
      const bool added =
          methods_
              .emplace(FullMethodName(*method),
                       Method{handler, place == service.places.end() ? nullptr : place->second,
                              service.receive_budget})
              .second;
      COHORT_CHECK(added, "one handler for each method");
    }
  }
}

// An unknown method is an error of the caller's, and never ends the server: any client may name any
// method.
const MethodTable::Method* MethodTable::MethodOf(absl::string_view full_name) const {
  const auto found = methods_.find(std::string(full_name));
  return found == methods_.end() ? nullptr : &found->second;
}

const Handler* MethodTable::Find(absl::string_view full_name) const {
  const Method* const method = MethodOf(full_name);
  return method == nullptr ? nullptr : &method->handler;
}

const FindPlace* MethodTable::FindPlaceOf(absl::string_view full_name) const {
  const Method* const method = MethodOf(full_name);
  return method == nullptr || method->find_place == nullptr ? nullptr : &method->find_place;
}

ByteBudget* MethodTable::ReceiveBudgetOf(absl::string_view full_name) const {
  const Method* const method = MethodOf(full_name);
  return method == nullptr ? nullptr : method->receive_budget.get();
}

absl::Duration BoundedWait(absl::Duration wait) {
  // A year is longer than any call, and can be added to a time.
  return std::clamp(wait, absl::ZeroDuration(), absl::Hours(24 * 365));
}

absl::Status NoAnswerInTime(absl::string_view method) {
  return absl::DeadlineExceededError(absl::StrCat("no answer to ", method, " in time"));
}

absl::Status UnknownMethod(absl::string_view method, absl::string_view address) {
  return absl::UnimplementedError(
      absl::StrCat("the server at ", address, " does not serve ", method));
}

absl::Status CheckSize(const Message& message, size_t bytes_max) {
  // Both limits count: a header is parsed as one piece, so it has a lower limit than the message.
  const size_t bytes = message.header.size() + PayloadBytes(message.payload);
  if (bytes <= bytes_max && message.header.size() <= kHeaderBytesMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a message of ", bytes, " bytes, of which header ", message.header.size(),
                   "; at most ", bytes_max, " and ", kHeaderBytesMax));
}

}  // namespace cohort
