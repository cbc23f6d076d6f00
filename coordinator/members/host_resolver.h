#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"

namespace cohort {

// Asks what addresses a host name has. Thread-safe.
class HostResolver {
 public:
  // IP literals without brackets, in any order.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<std::string>>)>;

  virtual ~HostResolver() = default;
  // Errors: NOT_FOUND, UNAVAILABLE.
  virtual void Resolve(const std::string& host, Done done) = 0;
};

// The machine's own, on a thread of its own, because an answer may take seconds. The destructor
// waits for it. Thread-safe.
class SystemHostResolver final : public HostResolver {
 public:
  void Resolve(const std::string& host, Done done) override;

 private:
  ThreadPool thread_{{"resolver", 1}};
};

}  // namespace cohort
