#pragma once

// Errors that the outside world can cause are returned as absl::Status and absl::StatusOr. A layer
// that knows more than the layer below adds its knowledge once, with Annotate. Errors of the
// programmer go through check.h instead.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns `status` with "context: " before its message, and with the same code and payloads. An ok
// status is returned unchanged.
[[nodiscard]] absl::Status Annotate(const absl::Status& status, absl::string_view context);

// Returns true if the messages `text` and `said` are equal, or if one of them is the other with
// contexts before it that Annotate has added. A caller then reports only one of the two messages.
bool RepeatsMessage(absl::string_view text, absl::string_view said);

// Returns the status for an error number of the operating system, with the message "context: text
// of the error number".
[[nodiscard]] absl::Status ErrnoStatus(int error_number, absl::string_view context);

}  // namespace cohort

#define RETURN_IF_ERROR(expression)                                       \
  do {                                                                    \
    if (absl::Status cohort_status = (expression); !cohort_status.ok()) { \
      return cohort_status;                                               \
    }                                                                     \
  } while (false)

#define COHORT_CONCAT_INNER(a, b) a##b
#define COHORT_CONCAT(a, b) COHORT_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  COHORT_ASSIGN_OR_RETURN_IMPL(COHORT_CONCAT(cohort_result_, __LINE__), declaration, expression)
#define COHORT_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) return std::move(result).status();                \
  declaration = *std::move(result)
