#include "common/wire/malformed.h"

#include "common/wire/error_detail.h"

namespace cohort {

absl::Status MalformedMessage(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, what, proto::TRANSIENT);
}

bool IsMalformed(const absl::Status& status) {
  return (absl::IsInvalidArgument(status) || absl::IsDataLoss(status)) &&
         ClassOf(status) == proto::TRANSIENT;
}

}  // namespace cohort
