#pragma once

// The memory that the ranks of one host share: a header, a block of words for each rank, and an
// arena for each rank. It is one descriptor (memfd). Its size is far larger than what is used,
// because pages that are never touched take no memory.
//
//   | header | block of rank 0 | block of rank 1 | ... | arena of rank 0 | arena of rank 1 | ...
//
// Only the owning rank writes its block, and decides what lies where in its arena. The other ranks
// read the block and the arena, and write a result into the arena at the place that the block
// names. Each arena begins with the rank's slots for small inputs. Its staging memory follows,
// through which inputs and outputs that lie outside the arena go in pieces. Internal to
// worker/collective.

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
// The distance between atomic words of different ranks, in bytes: the processor fetches
// neighbouring cache lines in pairs.
inline constexpr size_t kLinePair = 128;
// The sizes of a slot and of one half of the staging memory, in bytes. A rank's arena has two of
// each: for even and odd calls, and for even and odd pieces.
inline constexpr size_t kSlotBytes = size_t{128} << 10;
inline constexpr size_t kStagingBytes = size_t{4} << 20;
inline constexpr size_t kOwnBytes = 2 * (kSlotBytes + kStagingBytes);

// The settings of the shared memory, which the rank that makes the segment chooses for all ranks.
struct ShmPlan {
  uint32_t ranks = 0;
  // 1 if each rank can have its own core, so that a waiting rank polls before it yields its core;
  // else 0.
  uint32_t spins = 0;
  uint64_t arena_bytes = 0;
  // Largest inputs, in bytes, that go through slots; at most kSlotBytes.
  uint64_t slot_bytes_max = 0;
  // Size, in bytes, of a piece that goes through staging memory; at most kStagingBytes.
  uint64_t piece_bytes = 0;
};

// Returns the settings for `ranks` ranks on a host with `cores` cores.
ShmPlan MakeShmPlan(int ranks, int cores, size_t arena_bytes);

struct ShmHeader {
  std::array<uint64_t, 2> nonce = {};
  ShmPlan plan;
  // The bell: a sleeping rank sleeps until this word changes.
  alignas(kLinePair) std::atomic<uint32_t> bell{0};
  std::atomic<uint32_t> sleepers{0};
  // The rank whose cause has ended the generation, plus 1; 0 if the generation has not ended.
  alignas(kLinePair) std::atomic<uint32_t> aborted_by{0};
};

// A rank's call, as the other ranks need to know it. Offsets are in the rank's arena.
struct ShmCall {
  uint64_t sequence = 0;
  uint64_t fingerprint = 0;
  uint64_t input = 0;
  uint64_t work = 0;  // offset at which an all-reduce or a reduce is to write the result
  uint32_t input_staged = 0;
  uint32_t work_staged = 0;
  // In an all-to-all: the number of elements that this rank sends to each rank.
  std::array<int64_t, kHostRanksMax> counts = {};
};

// A status, or the description of a call. Longer text is cut off at kBytesMax.
struct ShmText {
  static constexpr size_t kBytesMax = 4000;
  int32_t code = 0;
  uint32_t message_bytes = 0;
  uint32_t detail_bytes = 0;
  std::array<char, kBytesMax> bytes = {};
};

// The last call that a rank has completed, for error messages.
struct ShmLastCall {
  static constexpr size_t kNameBytesMax = 100;
  uint64_t sequence = 0;
  CollectiveOp op = CollectiveOp::kBarrier;
  uint32_t name_bytes = 0;
  std::array<char, kNameBytesMax> name = {};
};

struct ShmRankBlock {
  // The number of barriers at which the rank has arrived.
  alignas(kLinePair) std::atomic<uint64_t> arrived{0};
  // 1 while the rank may read or write memory of other ranks.
  alignas(kLinePair) std::atomic<uint32_t> busy{0};
  std::atomic<uint64_t> completed{0};  // number of calls that the rank has completed
  // The two last completed calls; the last one is at (completed - 1) % 2.
  std::array<ShmLastCall, 2> last_calls;
  std::atomic<uint32_t> left{0};                    // 1 after the rank has left the group
  alignas(kLinePair) std::array<ShmCall, 2> calls;  // the call with sequence s is at s % 2
  std::atomic<bool> abort_begun{false};  // true when a thread of the rank has begun to abort
  ShmText cause;  // cause with which this rank aborts; complete before aborted_by names the rank
  // The rank's call in the words of DescribeCall(); written only if the ranks' calls do not fit.
  ShmText mismatch;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics of two processes");

// A mapping of the shared memory. Each rank has its own mapping, even if several ranks are in one
// process. Thread-safe: threads share only its atomics.
class ShmSegment {
 public:
  // Makes the memory and maps it. Errors: RESOURCE_EXHAUSTED with the system's reason.
  static absl::StatusOr<std::shared_ptr<ShmSegment>> Make(const ShmPlan& plan);
  // Maps memory that another process has made. Errors: INVALID_ARGUMENT if `fd` is not memory of
  // sealed size with a valid plan; RESOURCE_EXHAUSTED with the system's reason.
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

  // Replaces the pages that hold `memory` by a private copy, in this mapping only. Later writes of
  // other ranks to these pages are then not seen here.
  void Detach(absl::Span<std::byte> memory) const;

 private:
  ShmSegment(UniqueFd fd, std::byte* data, size_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}

  const UniqueFd fd_;
  std::byte* const data_;
  const size_t size_;
};

}  // namespace cohort
