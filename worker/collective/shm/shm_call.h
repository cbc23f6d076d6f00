#pragma once

// The work of one rank in one call, in memory that all ranks of a host share.
//
// Small inputs are copied into slots, of which every rank has one. After one barrier all ranks read
// all slots. Calls use one of two sets of slots in turn: a rank that writes a slot again has passed
// the barrier of the call in between, so all other ranks have finished reading the slot.
//
// Larger inputs stay where they are if they lie in the rank's arena. After a barrier each rank
// computes 1/n of a reduction from the inputs of all ranks, block by block, and writes each block
// to the outputs of all ranks while the block is in the cache. Operations that do not reduce copy
// from the inputs of other ranks. After a last barrier the inputs may be changed. An input or
// output in other memory goes through its rank's staging memory in pieces; then all ranks work in
// pieces. Pieces use the two halves of the staging memory in turn, so one barrier for each piece is
// enough: the barrier that ends a piece begins the next.
//
// Sums are made by CombineTree(), so they have the bits of all algorithms that sum by the tree of
// reduce_tree.h. Internal to worker/collective.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/collective/collective_call.h"
#include "worker/collective/shm/shm_arena.h"
#include "worker/collective/shm/shm_barrier.h"

namespace cohort {

// One rank's run of one call. Lives on the thread that runs the rank's calls.
class ShmCallRun {
 public:
  // Makes the run of a call that has passed CheckCall(). `sequence` is the sequence number of the
  // call.
  ShmCallRun(ShmBarrier& barrier, const ShmArena& arena, const CollectiveCall& call,
             uint64_t sequence);

  // Runs the call. Errors: the cause for which the generation has ended; if this call does not fit
  // the calls of the other ranks, this is the cause.
  absl::Status Run();

 private:
  struct Range {  // a range of elements
    int64_t begin = 0;
    int64_t count = 0;
  };
  // The input or output of a rank, at its address in this process. If `staged`, the memory has two
  // halves, each of which holds one piece at a time.
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

  // Describe the parts into which the input of a rank is divided: one for each rank, or a single
  // one.
  bool HasParts() const;
  int Parts() const { return HasParts() ? barrier_.size() : 1; }
  Range PartOf(int rank, int part) const;
  int64_t LargestPart() const;
  // Returns the range of piece number `piece`, relative to the beginning of a part of `count`
  // elements.
  Range PieceOf(int64_t count, int64_t piece) const;
  // Returns the address in `place` of the first element of piece number `number` of part number
  // `part`. The part begins at element `part_begin` of the input; `piece` is the piece's range in
  // the part.
  std::byte* At(const Place& place, int part, int64_t part_begin, const Range& piece,
                int64_t number) const;

  void StageIn(int64_t piece);
  void CopyOut(int64_t piece);
  absl::Status Move(int64_t piece);
  absl::Status ReduceSlice(int64_t piece);
  void ReducePart(int64_t piece);
  void GatherParts(int64_t piece);
  void Copy(std::byte* to, const std::byte* from, int64_t elements) const;

  // Returns true if `rank` gets the result of an all-reduce or a reduce, in which each rank reduces
  // a share of the elements.
  bool WantsWork(int rank) const;

  ShmBarrier& barrier_;
  const ShmArena& arena_;
  const CollectiveCall& call_;
  const uint64_t sequence_;
  const size_t element_;
  const int64_t divisor_;
  ShmCall& mine_;
  int64_t piece_elements_ = 0;  // number of elements in a piece; used if any rank stages memory
  bool any_staged_ = false;
  std::vector<Place> inputs_;  // place of each rank's input
  std::vector<Place> works_;   // the place where each rank gets its result
  // In an all-to-all: the elements that each rank sends to each rank, one row for each sender.
  std::vector<int64_t> counts_;
};

}  // namespace cohort
