#pragma once

#include "common/wire/error_detail.h"

namespace cohort {

// Returns the error of a call to a home of variables, whatever its role: if nobody answered, the
// home's variables are lost as far as the caller can tell. The class of an answered error stays.
inline absl::Status AttributedHomeCall(const absl::Status& status, const proto::TaskRef& home) {
  const bool unreachable =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
  return Attributed(status, unreachable ? proto::PS_LOST : proto::APPLICATION, home);
}

}  // namespace cohort
