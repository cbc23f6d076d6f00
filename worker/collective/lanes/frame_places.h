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

// The offered places of one group. Thread-safe.
class FramePlaces {
 public:
  // A place for one frame: the frame of operation `sequence` that has this rank, tag and
  // fingerprint belongs in `memory`. The memory stays valid until Close.
  struct Entry {
    int from = 0;
    uint32_t tag = 0;
    uint64_t fingerprint = 0;
    absl::Span<std::byte> memory;
  };
  void Offer(uint64_t sequence, const Entry& entry);

  // Returns the place for a frame whose payload has not arrived yet. Returns null if no place was
  // offered, if the fingerprint or the size differs, or if the place was given out before.
  std::shared_ptr<ReceivePlace> Take(const CollectiveFrame& frame, size_t bytes);

  // Withdraws all places of the operation. When Close returns, nothing is being received in these
  // places, and nothing will be.
  void Close(uint64_t sequence);

 private:
  struct Offered {
    uint64_t fingerprint = 0;
    absl::Span<std::byte> memory;
    std::shared_ptr<ReceivePlace> given;  // a place that was given out; shared with the transport
  };
  using OfOperation =
      absl::flat_hash_map<uint64_t, Offered>;  // frames' places, keyed by rank and tag

  Mutex mutex_;
  std::map<uint64_t, OfOperation> offered_
      ABSL_GUARDED_BY(mutex_);  // keyed by the operation's sequence
};

}  // namespace cohort
