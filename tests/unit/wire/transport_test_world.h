#pragma once

// The worlds in which the transport conformance suite runs: each a Transport and a way to let
// things happen until something holds.

#include <functional>
#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/wire/transport.h"

namespace cohort {

// The end of one call. Thread-safe.
class Outcome {
 public:
  Reply Completion() {
    return [this](absl::StatusOr<Message> result) {
      MutexLock lock(mutex_);
      ++completions_;
      result_ = std::move(result);
      done_.NotifyAll();
    };
  }
  bool done() const {
    MutexLock lock(mutex_);
    return completions_ > 0;
  }
  int completions() const {
    MutexLock lock(mutex_);
    return completions_;
  }
  // False when it did not come within `timeout` of real time.
  bool WaitFor(absl::Duration timeout) const {
    MutexLock lock(mutex_);
    while (completions_ == 0) {
      if (!done_.WaitFor(mutex_, timeout)) return completions_ > 0;
    }
    return true;
  }
  absl::StatusOr<Message> Take() {
    MutexLock lock(mutex_);
    return std::move(*result_);
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar done_;
  int completions_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<absl::StatusOr<Message>> result_ ABSL_GUARDED_BY(mutex_);
};

class TransportTestWorld {
 public:
  virtual ~TransportTestWorld() = default;
  virtual Transport& transport() = 0;
  virtual std::string ListenAddress() = 0;
  // Lets the world go on until `holds`; false when it does not come to that.
  virtual bool Until(const std::function<bool()>& holds) = 0;
};

struct WorldFactory {
  const char* name;
  std::unique_ptr<TransportTestWorld> (*make)(size_t message_bytes_max);
};

}  // namespace cohort
