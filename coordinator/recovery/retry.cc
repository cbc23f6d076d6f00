#include "coordinator/recovery/retry.h"

#include "common/wire/error_detail.h"

namespace cohort {

bool IsLoss(const absl::Status& status) {
  const proto::ErrorClass error_class = ClassOf(status);
  // STALE: the call met a newer epoch, which a recovery under way has claimed.
  return error_class == proto::PS_LOST || error_class == proto::STALE ||
         error_class == proto::TRANSIENT || absl::IsUnavailable(status) ||
         absl::IsDeadlineExceeded(status);
}

}  // namespace cohort
