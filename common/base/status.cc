#include "common/base/status.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace cohort {

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  // Cohort's error details are payloads of a status, so the payloads are copied to the status with
  // the new message.
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

bool RepeatsMessage(absl::string_view text, absl::string_view said) {
  if (text.size() < said.size()) std::swap(text, said);
  // Annotate puts "context: " before a message. So if one message is the other with contexts before
  // it, these contexts end with ": ".
  return absl::ConsumeSuffix(&text, said) && (text.empty() || absl::EndsWith(text, ": "));
}

std::string ErrnoText(int error_number) {
  const std::string text = std::strerror(error_number);
  rlimit limit = {};
  if (error_number != EFBIG || getrlimit(RLIMIT_FSIZE, &limit) != 0) return text;
  // Without a limit of the process, only the file system can have refused the size.
  if (limit.rlim_cur == RLIM_INFINITY) {
    return absl::StrCat(text, " for this file system");
  }
  return absl::StrCat(text, ": a file of this process may have ", limit.rlim_cur,
                      " bytes (ulimit -f); raise the limit");
}

absl::Status ErrnoStatus(int error_number, absl::string_view context) {
  // absl counts EFBIG as OUT_OF_RANGE, which readers of files take for a file that is too short.
  const absl::StatusCode code = error_number == EFBIG ? absl::StatusCode::kResourceExhausted
                                                      : absl::ErrnoToStatusCode(error_number);
  return absl::Status(code, absl::StrCat(context, ": ", ErrnoText(error_number)));
}

}  // namespace cohort
