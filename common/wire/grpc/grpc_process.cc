#include "common/wire/grpc/grpc_process.h"

#include <grpc/support/log.h>

#include "absl/synchronization/mutex.h"
#include "common/base/log.h"

namespace cohort {

void SetUpGrpc() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    Log(LogLevel::kDebug, "grpc", {{"text", line->message}});
  });
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace cohort
