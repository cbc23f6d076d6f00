#pragma once

// The memory that the ranks of one host share: a header, a block of words per rank, and an arena
// per rank. It is one descriptor of a size far above what is used, since pages that nobody touches
// take no memory.
//
//   | header | block of rank 0 | block of rank 1 | ... | arena of rank 0 | arena of rank 1 | ...
//
// A rank alone writes its block, and alone decides what lies where in its arena; the others read,
// and write where it says that a result is wanted. Each arena starts with the rank's slots, where
// small inputs go, and its staging, where inputs go in pieces that lie in memory that is not
// shared. Internal to worker/collective.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/unique_fd.h"
#include "worker/collective/collective_call.h"

namespace cohort {

inline constexpr int kHostRanksMax = 128;
// Neighbouring lines are fetched in pairs.
inline constexpr size_t kLinePair = 128;
// Sizes of the areas of a rank. Each area exists twice, for calls with even and odd numbers, or for
// even and odd pieces.
inline constexpr size_t kSlotBytes = size_t{128} << 10;
inline constexpr size_t kStagingBytes = size_t{4} << 20;
inline constexpr size_t kOwnBytes = 2 * (kSlotBytes + kStagingBytes);

// The decisions that the rank that makes the segment takes for all of them.
struct ShmPlan {
  uint32_t ranks = 0;
  // How often a waiting rank polls before it sleeps; high only if each rank has its own core.
  uint32_t spins = 0;
  uint64_t arena_bytes = 0;
  // Inputs up to so many bytes go through slots; at most kSlotBytes.
  uint64_t slot_bytes_max = 0;
  // Size of a piece of staged memory; at most kStagingBytes.
  uint64_t piece_bytes = 0;
};

// Returns the plan that fits so many ranks on so many cores.
ShmPlan MakeShmPlan(int ranks, int cores, size_t arena_bytes);

struct ShmHeader {
  std::array<uint64_t, 2> nonce = {};
  ShmPlan plan;
  // The bell: sleeping ranks wait for another value of it.
  alignas(kLinePair) std::atomic<uint32_t> bell{0};
  std::atomic<uint32_t> sleepers{0};
  // Whose cause ended the generation: that rank plus 1, or 0.
  alignas(kLinePair) std::atomic<uint32_t> aborted_by{0};
};

// A call as its peers have to know it. Offsets are into the rank's arena.
struct ShmCall {
  uint64_t sequence = 0;
  uint64_t fingerprint = 0;
  uint64_t input = 0;
  uint64_t work = 0;  // where an all-reduce or reduce wants results
  uint32_t input_staged = 0;
  uint32_t work_staged = 0;
  std::array<int64_t, kHostRanksMax> counts = {};  // for all-to-all: what goes to each rank
};

// A status, or the words of a call. What is longer is cut off.
struct ShmText {
  static constexpr size_t kBytesMax = 4000;
  int32_t code = 0;
  uint32_t message_bytes = 0;
  uint32_t detail_bytes = 0;
  std::array<char, kBytesMax> bytes = {};
};

// The last call that a rank has completed, for people.
struct ShmLastCall {
  static constexpr size_t kNameBytesMax = 100;
  uint64_t sequence = 0;
  CollectiveOp op = CollectiveOp::kBarrier;
  uint32_t name_bytes = 0;
  std::array<char, kNameBytesMax> name = {};
};

struct ShmRankBlock {
  // The number of barriers that the rank has reached.
  alignas(kLinePair) std::atomic<uint64_t> arrived{0};
  // Whether the rank may be reading or writing memory of others.
  alignas(kLinePair) std::atomic<uint32_t> busy{0};
  std::atomic<uint64_t> completed{0};               // calls
  std::array<ShmLastCall, 2> last_calls;            // the last is at (completed - 1) % 2
  std::atomic<uint32_t> left{0};                    // the rank left in good order
  alignas(kLinePair) std::array<ShmCall, 2> calls;  // by the sequence's parity
  std::atomic<bool> abort_begun{false};             // set by one of the rank's threads
  ShmText cause;     // the abort's, complete before aborted_by says so
  ShmText mismatch;  // the call in words, when calls do not fit
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics of two processes");

// A mapping of it, one per rank, also when ranks are in one process. Thread-safe: what several
// threads use are atomics.
class ShmSegment {
 public:
  // Errors: RESOURCE_EXHAUSTED with the system's reason.
  static absl::StatusOr<std::shared_ptr<ShmSegment>> Make(const ShmPlan& plan);
  // Maps a segment that came from another process. Errors: INVALID_ARGUMENT if it is not such a
  // segment of sealed size; RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::shared_ptr<ShmSegment>> Map(UniqueFd fd);
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  int fd() const { return fd_.get(); }
  ShmHeader& header() const { return *reinterpret_cast<ShmHeader*>(data_); }
  const ShmPlan& plan() const { return header().plan; }
  int ranks() const { return static_cast<int>(plan().ranks); }
  ShmRankBlock& block(int rank) const;
  absl::Span<std::byte> arena(int rank) const;

  // Gives this mapping a copy of its own of the pages around `memory`: what other ranks write there
  // from now on is not seen.
  void Detach(absl::Span<std::byte> memory) const;

 private:
  ShmSegment(UniqueFd fd, std::byte* data, size_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}

  const UniqueFd fd_;
  std::byte* const data_;
  const size_t size_;
};

}  // namespace cohort
