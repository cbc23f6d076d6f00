#pragma once

// Memory of a handler's own into which the payload of one request is received, so that nobody
// copies it there later. The handler may take the memory back at any time.

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"

namespace cohort {

// Thread-safe.
class ReceivePlace {
 public:
  // Wraps memory of the handler, which stays valid until the payload has come or Revoke returns.
  explicit ReceivePlace(absl::Span<std::byte> memory) : memory_(memory) {}

  absl::Span<std::byte> memory() const { return memory_; }

  // Runs `write` with the memory, for no longer than a look at a socket takes, because Revoke waits
  // for it. False, without a run: it was revoked.
  bool Use(absl::FunctionRef<void(absl::Span<std::byte> memory)> write) {
    MutexLock lock(mutex_);
    if (!revoked_) write(memory_);
    return !revoked_;
  }

  // Keeps the memory from being written from when this returns. The rest of the payload is received
  // and forgotten: the handler gets its request without a payload.
  void Revoke() {
    MutexLock lock(mutex_);
    revoked_ = true;
  }

 private:
  const absl::Span<std::byte> memory_;
  Mutex mutex_;
  bool revoked_ ABSL_GUARDED_BY(mutex_) = false;
};

// Returns the place for a payload, asked once the header of a request is there and before its
// payload is read, if the transport can receive into memory of others. The place has as many bytes
// as the payload; null: none. A payload that came in the place is one slice, whose owner is the
// place. Runs on a thread of the transport and must not block.
using FindPlace =
    std::function<std::shared_ptr<ReceivePlace>(absl::string_view header, size_t payload_bytes)>;

}  // namespace cohort
