#include "common/wire/grpc_log.h"

#include <grpc/support/log.h>

#include "common/base/log.h"

namespace cohort {

void TakeGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    Log(LogLevel::kDebug, "grpc", {{"text", line->message}});
  });
}

}  // namespace cohort
