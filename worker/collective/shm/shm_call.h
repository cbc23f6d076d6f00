#pragma once

// The work of one rank in one call, in memory that all ranks of a host share.
//
// Small inputs are copied into slots; every rank has a slot. After one barrier all ranks read all
// slots. Slots alternate between calls: a rank that writes a slot again has passed the barrier of
// the call in between, so all other ranks are done with the slot.
//
// Larger inputs stay where they are if they lie in the rank's arena. After a barrier each rank
// computes 1/n of a reduction from the inputs of all ranks, block by block, and writes each block
// to the outputs of all ranks while the block is in the cache. Operations that are not reductions
// copy from the inputs of other ranks. A last barrier frees the inputs. An input or output in other
// memory goes through the rank's staging memory in pieces; then all ranks work in pieces. Pieces
// alternate between two halves of the staging memory, so one barrier for each piece is enough: the
// barrier that ends a piece begins the next piece.
//
// Sums are made by CombineTree, so their bits are those of every other algorithm that sums by the
// tree. Internal to worker/collective.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/collective/collective_call.h"
#include "worker/collective/shm/shm_arena.h"
#include "worker/collective/shm/shm_barrier.h"

namespace cohort {

// One rank's run of one call. Lives on the thread of the group's calls.
class ShmCallRun {
 public:
  // Makes the run of a call that has passed CheckCall. `sequence` is the number of the call in the
  // group.
  ShmCallRun(ShmBarrier& barrier, const ShmArena& arena, const CollectiveCall& call,
             uint64_t sequence);

  // Runs the call. Errors: the cause for which the generation ended, which may be that this call
  // does not fit the calls of the other ranks.
  absl::Status Run();

 private:
  struct Range {  // the elements from `begin` on, `count` in number
    int64_t begin = 0;
    int64_t count = 0;
  };
  // The input or output memory of a rank, as mapped in this rank. If `staged`, the memory holds one
  // piece at a time, in one of two halves.
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

  // Describe how the input of a rank is divided: into one part for each rank, or into a single
  // part.
  bool HasParts() const;
  int Parts() const { return HasParts() ? barrier_.size() : 1; }
  Range PartOf(int rank, int part) const;
  int64_t LargestPart() const;
  // Returns the elements of piece number `piece` of a part that has `count` elements.
  Range PieceOf(int64_t count, int64_t piece) const;
  // Returns the address in `place` of the first element of piece `number` of a part. The part
  // begins at element `part_begin`; `piece` is the range of the piece within the part.
  std::byte* At(const Place& place, int part, int64_t part_begin, const Range& piece,
                int64_t number) const;

  void StageIn(int64_t piece);
  void CopyOut(int64_t piece);
  absl::Status Move(int64_t piece);
  absl::Status ReduceSlice(int64_t piece);
  void ReducePart(int64_t piece);
  void GatherParts(int64_t piece);
  void Copy(std::byte* to, const std::byte* from, int64_t elements) const;

  // Returns whether `rank` gets the result of an all-reduce or reduce, for which each rank reduces
  // a share of the elements.
  bool WantsWork(int rank) const;

  ShmBarrier& barrier_;
  const ShmArena& arena_;
  const CollectiveCall& call_;
  const uint64_t sequence_;
  const size_t element_;
  const int64_t divisor_;
  ShmCall& mine_;
  int64_t piece_elements_ = 0;  // size of a piece in elements; used if any rank stages memory
  bool any_staged_ = false;
  std::vector<Place> inputs_;  // where the input of each rank lies
  std::vector<Place> works_;   // where each rank gets its result
  // The counts that each rank sends to each rank in an all-to-all, one row per sending rank.
  std::vector<int64_t> counts_;
};

}  // namespace cohort
