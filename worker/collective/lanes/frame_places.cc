#include "worker/collective/lanes/frame_places.h"

#include <utility>

namespace cohort {

namespace {

// Returns the key of a frame in its operation: the rank that sends it, and its tag.
uint64_t KeyOf(int from, uint32_t tag) {
  return static_cast<uint64_t>(static_cast<uint32_t>(from)) << 32 | tag;
}

}  // namespace

void FramePlaces::Offer(uint64_t sequence, const Entry& entry) {
  MutexLock lock(mutex_);
  offered_[sequence][KeyOf(entry.from, entry.tag)] = {entry.fingerprint, entry.memory, nullptr};
}

std::shared_ptr<ReceivePlace> FramePlaces::Take(const CollectiveFrame& frame, size_t bytes) {
  MutexLock lock(mutex_);
  const auto operation = offered_.find(frame.sequence);
  if (operation == offered_.end()) return nullptr;
  const auto found = operation->second.find(KeyOf(frame.from, frame.tag));
  if (found == operation->second.end()) return nullptr;
  Offered& offered = found->second;
  // A place is given out once, so that no two frames are received in the same memory.
  if (offered.given != nullptr || offered.fingerprint != frame.fingerprint ||
      offered.memory.size() != bytes) {
    return nullptr;
  }
  offered.given = std::make_shared<ReceivePlace>(offered.memory);
  return offered.given;
}

void FramePlaces::Close(uint64_t sequence) {
  // The places are revoked outside the lock, because Revoke() waits while the transport writes to a
  // place.
  PlacesByFrame closed;
  {
    MutexLock lock(mutex_);
    const auto operation = offered_.find(sequence);
    if (operation == offered_.end()) return;
    closed = std::move(operation->second);
    offered_.erase(operation);
  }
  for (const auto& [key, offered] : closed) {
    if (offered.given != nullptr) offered.given->Revoke();
  }
}

}  // namespace cohort
