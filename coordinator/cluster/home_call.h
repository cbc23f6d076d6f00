#pragma once

#include "common/wire/error_detail.h"

namespace cohort {

// Returns the error of a failed call to a home of variables, whatever the home's role. If the home
// did not answer, the class is PS_LOST: the variables are lost as far as the caller can tell. An
// error that the home answered keeps its class.
inline absl::Status AttributedHomeCall(const absl::Status& status, const proto::TaskRef& home) {
  const bool unreachable =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
  return Attributed(status, unreachable ? proto::PS_LOST : proto::APPLICATION, home);
}

}  // namespace cohort
