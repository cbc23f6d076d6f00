#pragma once

// The places in the outputs of callers where the transport may receive frames directly, so that
// elements from other ranks need not be copied once more. Operations offer places on the strand of
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

// The places that the operations of one group offer to the transport. Thread-safe.
class FramePlaces {
 public:
  // A place for one frame: the frame of operation `sequence` that comes from rank `from` with `tag`
  // and `fingerprint` may be received in `memory`, which stays valid until Close().
  struct Entry {
    int from = 0;
    uint32_t tag = 0;
    uint64_t fingerprint = 0;
    absl::Span<std::byte> memory;
  };
  void Offer(uint64_t sequence, const Entry& entry);

  // Returns the place for a frame whose payload of `bytes` bytes has not arrived yet. Returns null
  // if no place was offered for this frame, if its fingerprint or size differs, or if its place was
  // given out before.
  std::shared_ptr<ReceivePlace> Take(const CollectiveFrame& frame, size_t bytes);

  // Withdraws all places of operation `sequence`. When Close() returns, nothing is being received
  // in these places, and nothing will be.
  void Close(uint64_t sequence);

 private:
  struct Offered {
    uint64_t fingerprint = 0;
    absl::Span<std::byte> memory;
    // The place as the transport got it; null until then. Shared with the transport.
    std::shared_ptr<ReceivePlace> given;
  };
  // The places of one operation, by the rank and the tag of the frame.
  using PlacesByFrame = absl::flat_hash_map<uint64_t, Offered>;

  Mutex mutex_;
  // The places of all operations, by sequence.
  std::map<uint64_t, PlacesByFrame> offered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
