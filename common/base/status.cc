#include "common/base/status.h"

#include <cerrno>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/errno_text.h"

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

absl::Status ErrnoStatus(int error_number, absl::string_view context) {
  // absl counts EFBIG as OUT_OF_RANGE, which readers of files take for a file that is too short.
  const absl::StatusCode code = error_number == EFBIG ? absl::StatusCode::kResourceExhausted
                                                      : absl::ErrnoToStatusCode(error_number);
  return absl::Status(code, absl::StrCat(context, ": ", ErrnoText(error_number)));
}

}  // namespace cohort
