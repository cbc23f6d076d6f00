#pragma once

// Errors that the world can cause travel as absl::Status and absl::StatusOr. A layer that knows
// something the one below does not adds it with Annotate, once. Programmer errors go to check.h
// instead.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns the same code and payloads with "context: " before the message. An ok status stays as it
// is.
[[nodiscard]] absl::Status Annotate(const absl::Status& status, absl::string_view context);

// Returns the status that an error number of the operating system means, as "context: text of the
// number".
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
