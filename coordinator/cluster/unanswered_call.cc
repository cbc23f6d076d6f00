#include "coordinator/cluster/unanswered_call.h"

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {
// The rate, in bytes per second, at which a task at least works on a request.
constexpr double kWorkedBytesPerSecondMin = 1 << 20;
}  // namespace

std::string MethodName(absl::string_view path) {
  // If there is no '/' in the path, rfind() + 1 is 0, so the whole path is the name.
  return std::string(path.substr(path.rfind('/') + 1));
}

absl::Duration TimeFor(absl::Duration silence, size_t bytes) {
  return silence + absl::Seconds(static_cast<double>(bytes) / kWorkedBytesPerSecondMin);
}

absl::Status UnansweredError(const UnansweredCall& call, absl::Duration lasted,
                             const absl::Status& failure) {
  const std::string task = TaskName(DetailOf(failure).origin());
  const std::string bytes = call.bytes == 0 ? "" : absl::StrCat(" of ", call.bytes, " bytes");
  return WithDetail(
      absl::Status(
          failure.code(),
          absl::StrCat("chief:0's call ", call.method, bytes, " to ", task, " got no answer for ",
                       absl::FormatDuration(absl::Trunc(lasted, absl::Milliseconds(100))),
                       ", although ", task,
                       " answers small calls; the network between the two may lose large "
                       "packets: check the path MTU (ping -M do -s 1400); last failure: ",
                       failure.message())),
      DetailOf(failure));
}

}  // namespace cohort
