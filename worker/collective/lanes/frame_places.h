#pragma once

// The places in callers' outputs where the transport may receive frames directly, so that elements
// gathered from other ranks are not copied a second time. Operations offer places on the strand of
// their group; threads of the transport ask for places. Internal to worker/collective.

#include <cstdint>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/wire/receive_memory.h"
#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// The places in callers' outputs that the operations of one group offer to the transport.
// Thread-safe.
class FramePlaces {
 public:
  // A place for one frame in the caller's output: the frame of operation `sequence` that comes from
  // rank `from` with `tag` and `fingerprint` belongs in `memory`. The memory stays valid until
  // Close.
  struct Entry {
    int from = 0;
    uint32_t tag = 0;
    uint64_t fingerprint = 0;
    absl::Span<std::byte> memory;
  };
  void Offer(uint64_t sequence, const Entry& entry);

  // Returns the place in the caller's output for a frame whose payload has not arrived yet. Returns
  // null if no place was offered, if the fingerprint or the size differs, or if the place was given
  // out before.
  std::shared_ptr<ReceivePlace> Take(const CollectiveFrame& frame, size_t bytes);

  // Withdraws all places of the operation. When Close returns, nothing is being received in these
  // places, and nothing will be.
  void Close(uint64_t sequence);

 private:
  struct Offered {
    uint64_t fingerprint = 0;
    absl::Span<std::byte> memory;
    // The place in the form that the transport uses; null until it is given out. Shared with the
    // transport.
    std::shared_ptr<ReceivePlace> given;
  };
  // The offered places of one operation, by sending rank and tag of the frame.
  using OfOperation = absl::flat_hash_map<uint64_t, Offered>;

  Mutex mutex_;
  // The offered places of all operations, by the operation's sequence.
  std::map<uint64_t, OfOperation> offered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
