#pragma once

// Places where frames of the operations under way may be received: in the callers' outputs, so that
// what one rank gathers from the others is not copied once more. Operations offer them on the
// strand of their group; threads of the transport ask for them. Internal to worker/collective.

#include <cstdint>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/wire/receive_place.h"
#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// Thread-safe.
class FramePlaces {
 public:
  // A frame of operation `sequence` that has this rank, tag and fingerprint belongs in `memory`,
  // which stays valid until Close.
  struct Entry {
    int from = 0;
    uint32_t tag = 0;
    uint64_t fingerprint = 0;
    absl::Span<std::byte> memory;
  };
  void Offer(uint64_t sequence, const Entry& entry);

  // Returns the place of this frame, whose payload is not here yet. Returns null if none was
  // offered, if the fingerprint or size differs, or if the place was given out before.
  std::shared_ptr<ReceivePlace> Take(const CollectiveFrame& frame, size_t bytes);

  // Keeps everything from being received in the operation's places from when this returns.
  void Close(uint64_t sequence);

 private:
  struct Offered {
    uint64_t fingerprint = 0;
    absl::Span<std::byte> memory;
    std::shared_ptr<ReceivePlace> given;  // shared with the transport
  };
  using OfOperation = absl::flat_hash_map<uint64_t, Offered>;  // keyed by rank and tag

  Mutex mutex_;
  std::map<uint64_t, OfOperation> offered_ ABSL_GUARDED_BY(mutex_);  // keyed by sequence
};

}  // namespace cohort
