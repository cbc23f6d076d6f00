#pragma once

// The memory into which payloads are received: a pool whose memory tensors keep, and memory that
// handlers offer (ReceivePlace).

#include <cstddef>
#include <functional>
#include <list>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A pool of the memory in which payloads are assembled. Tensors keep the memory of their payload;
// when the last of these tensors is gone, the memory serves a later payload. New memory would cost
// a page fault for every 4 KiB, and the page faults take longer than copying the bytes. Buffers in
// use keep the pool alive. Thread-safe.
class ReceivePool : public std::enable_shared_from_this<ReceivePool> {
 public:
  static constexpr size_t kFreeBytesMax = size_t{256} << 20;

  // Returns a buffer of at least `bytes`. A buffer that is used again has at most about
  // twice as many bytes.
  std::shared_ptr<Buffer> Take(size_t bytes);

 private:
  void Return(std::shared_ptr<Buffer> buffer);

  Mutex mutex_;
  // Free buffers, the last used first.
  std::list<std::shared_ptr<Buffer>> free_ ABSL_GUARDED_BY(mutex_);
  size_t free_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Memory of a handler into which a transport receives the payload of one request directly, so that
// no copy is needed later. The handler may take the memory back at any time. Thread-safe.
class ReceivePlace {
 public:
  // Wraps memory of the handler. The memory must stay valid until the payload has arrived or Revoke
  // returns.
  explicit ReceivePlace(absl::Span<std::byte> memory) : memory_(memory) {}

  absl::Span<std::byte> memory() const { return memory_; }

  // Runs `write` with the memory. `write` may take no longer than one read of a socket, because
  // Revoke waits for it. Returns false, without running `write`, if the place was revoked.
  bool Use(absl::FunctionRef<void(absl::Span<std::byte> memory)> write) {
    MutexLock lock(mutex_);
    if (!revoked_) write(memory_);
    return !revoked_;
  }

  // Takes the memory back: nothing is written to the memory after Revoke returns. The rest of the
  // payload is received and discarded, and the handler gets its request without a payload.
  void Revoke() {
    MutexLock lock(mutex_);
    revoked_ = true;
  }

 private:
  const absl::Span<std::byte> memory_;
  Mutex mutex_;
  bool revoked_ ABSL_GUARDED_BY(mutex_) = false;
};

// Returns the memory (ReceivePlace) that a handler offers for the payload of a request, or null if
// the handler offers none. Transports that can receive into foreign memory call the function when
// the header of a request has arrived, before they read the payload. The place has as many bytes as
// the payload. A payload that was received in the place is one slice, whose owner is the place.
// Runs on a thread of the transport and must not block.
using FindPlace =
    std::function<std::shared_ptr<ReceivePlace>(absl::string_view header, size_t payload_bytes)>;

}  // namespace cohort
