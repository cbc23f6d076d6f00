#include "common/wire/grpc/grpc_later.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <memory>
#include <utility>

namespace cohort {

void RunLater(absl::AnyInvocable<void()> task) {
  struct Pending {
    grpc::Alarm alarm;
    absl::AnyInvocable<void()> task;
  };
  auto* pending = new Pending{grpc::Alarm(), std::move(task)};
  pending->alarm.Set(std::chrono::system_clock::now(), [pending](bool) {
    const std::unique_ptr<Pending> owned(pending);
    owned->task();
  });
}

}  // namespace cohort
