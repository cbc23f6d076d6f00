#pragma once

// The memory into which payloads are received: a pool of memory that received tensors may keep
// (ReceivePool), and memory that handlers offer (ReceivePlace).

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
// a page fault for every 4 KiB, and the page faults take longer than copying the bytes. The pool
// lives as long as a buffer from it is in use. Thread-safe.
class ReceivePool : public std::enable_shared_from_this<ReceivePool> {
 public:
  static constexpr size_t kFreeBytesMax = size_t{256} << 20;

  // Returns a buffer of at least `bytes`: a new one, or a free one with at most about twice as many
  // bytes.
  std::shared_ptr<Buffer> Take(size_t bytes);

 private:
  void Return(std::shared_ptr<Buffer> buffer);

  Mutex mutex_;
  // The free buffers; the buffer that was used last is first.
  std::list<std::shared_ptr<Buffer>> free_ ABSL_GUARDED_BY(mutex_);
  size_t free_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Memory of a handler into which a transport receives the payload of one request directly, so that
// the handler need not copy the payload. The handler may take the memory back at any time.
// Thread-safe.
class ReceivePlace {
 public:
  // Wraps memory of the handler. The memory must stay valid until the payload has arrived or Revoke
  // returns.
  explicit ReceivePlace(absl::Span<std::byte> memory) : memory_(memory) {}

  absl::Span<std::byte> memory() const { return memory_; }

  // Calls `write` with the memory. `write` may take no longer than one read of a socket, because
  // Revoke waits for it. Returns false, without a call of `write`, if the handler has revoked the
  // place.
  bool Use(absl::FunctionRef<void(absl::Span<std::byte> memory)> write) {
    MutexLock lock(mutex_);
    if (!revoked_) write(memory_);
    return !revoked_;
  }

  // Takes the memory back for the handler: nothing is written to the memory after Revoke returns.
  // The rest of the payload is received and discarded, and the handler gets its request without a
  // payload.
  void Revoke() {
    MutexLock lock(mutex_);
    revoked_ = true;
  }

 private:
  const absl::Span<std::byte> memory_;
  Mutex mutex_;
  bool revoked_ ABSL_GUARDED_BY(mutex_) = false;
};

// The function by which a handler offers memory for the payload of a request: a ReceivePlace of
// `payload_bytes` bytes, or null if any memory will do. A transport that can receive into foreign
// memory calls the function when the header of a request has arrived, before it reads the payload.
// A payload that was received in the place is one slice, whose owner is the place. The function
// runs on a thread of the transport and must not block.
using FindPlace =
    std::function<std::shared_ptr<ReceivePlace>(absl::string_view header, size_t payload_bytes)>;

}  // namespace cohort
