#pragma once

// The work of one rank in one call, in memory that all ranks of a host share.
//
// Small inputs are copied into a slot that every rank has; after one barrier all read all slots.
// Slots alternate between calls: whoever writes a slot again has passed the barrier of the call
// between, so all others are done with it.
//
// Larger ones stay where they are when they lie in the rank's arena. After a barrier each rank
// computes 1/n of a reduction from all ranks' inputs, block by block, and writes each block to all
// ranks' outputs while it is in the cache; other operations copy from the inputs of the others.
// A last barrier frees the inputs. What lies in other memory goes through the rank's staging, in
// pieces, and then all ranks work in pieces. Pieces alternate between two halves of the staging, so
// one barrier a piece is enough: the one that ends a piece begins the next.
//
// Sums are CombineTree's, so their bits are those of every other algorithm. Internal to
// worker/collective.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/collective/collective_call.h"
#include "worker/collective/shm/shm_arena.h"
#include "worker/collective/shm/shm_barrier.h"

namespace cohort {

// Returns whether inputs are small, as every rank knows of every other's.
bool GoesThroughSlots(const CollectiveCall& call, const ShmPlan& plan);

// Lives on the thread of the group's calls.
class ShmCallRun {
 public:
  // Runs a call that has passed CheckCall; it is number `sequence` of the group.
  ShmCallRun(ShmBarrier& barrier, const ShmArena& arena, const CollectiveCall& call,
             uint64_t sequence);

  // Errors: the generation's cause, which may be that this call does not fit those of the others.
  absl::Status Run();

 private:
  struct Range {  // a range of elements
    int64_t begin = 0;
    int64_t count = 0;
  };
  // A rank's memory as seen here. Staged: what is there is one piece, in one of two halves.
  struct Place {
    std::byte* data = nullptr;
    bool staged = false;
  };

  absl::Status RunThroughSlots();
  absl::Status RunInPieces();
  absl::Status Meet();
  absl::Status Mismatch();
  absl::Status Refuse(int rank, const char* what);

  void PlaceInput();
  void PlaceWork();
  absl::Status ReadPlaces();
  absl::Status ReadCounts();
  Place PlaceOf(int rank, uint64_t offset, bool staged) const;

  // Return how the input of `rank` is divided: a part for each rank, or one.
  bool HasParts() const;
  int Parts() const { return HasParts() ? barrier_.size() : 1; }
  Range PartOf(int rank, int part) const;
  int64_t LargestPart() const;
  // Returns the elements of a part of `count` that are in piece `piece`.
  Range PieceOf(int64_t count, int64_t piece) const;
  // Returns the address of element `at` of piece `piece` of a part.
  std::byte* At(const Place& place, int part, int64_t part_begin, const Range& piece,
                int64_t number) const;

  void StageIn(int64_t piece);
  void CopyOut(int64_t piece);
  absl::Status Move(int64_t piece);
  absl::Status ReduceSlice(int64_t piece);
  void ReducePart(int64_t piece);
  void GatherParts(int64_t piece);
  void Copy(std::byte* to, const std::byte* from, int64_t elements) const;

  bool is_root() const { return barrier_.rank() == call_.root; }
  // Returns whether `rank` wants results of all ranks' work on a reduction.
  bool WantsWork(int rank) const;

  ShmBarrier& barrier_;
  const ShmArena& arena_;
  const CollectiveCall& call_;
  const uint64_t sequence_;
  const size_t element_;
  const int64_t divisor_;
  ShmCall& mine_;
  int64_t piece_elements_ = 0;  // set while anything is staged
  bool any_staged_ = false;
  std::vector<Place> inputs_;    // one per rank
  std::vector<Place> works_;     // one per rank
  std::vector<int64_t> counts_;  // for all-to-all: what each rank sends to each, row by row
};

}  // namespace cohort
