#pragma once

// The way of a call through NCCL: cut into pieces that fit into staging memory, each with what is
// copied in, the operations of one NCCL group, and what is copied out. Pure arithmetic, the same on
// all ranks where NCCL asks for it: all of them make the same collectives in the same order, and
// the two ends of a send cut it alike.
//
// NCCL's reduce-scatter and all-gather know equal parts only. A piece takes as many elements of
// each part; where all have as many left it is that operation, else a reduction or broadcast for
// each part that has some left, which moves the same elements and no padding.
//
// All numbers are elements. In place, an element of the input is copied in with its piece or
// before, and written only when that piece comes out.

#include <cstdint>
#include <vector>

#include "worker/collective/collective_call.h"

namespace cohort {

struct NcclCopy {
  int64_t in_call = 0;  // first, of the call's input or output
  int64_t in_staging = 0;
  int64_t count = 0;
};

struct NcclStep {
  enum class Kind : uint8_t {
    kAllReduce,
    kReduce,
    kBroadcast,
    kAllGather,
    kReduceScatter,
    kSend,
    kReceive,
  };

  Kind kind = Kind::kAllReduce;
  int peer = 0;               // for kSend and kReceive; the root of kReduce and kBroadcast
  int64_t send_first = 0;     // position in the staged input
  int64_t receive_first = 0;  // position in the staged output
  int64_t count = 0;          // as NCCL counts: those of one part in kAllGather and kReduceScatter
};

struct NcclPiece {
  std::vector<NcclCopy> in;
  std::vector<NcclStep> steps;
  std::vector<NcclCopy> out;
  int64_t staged_in = 0;  // elements of the staged input
  int64_t staged_out = 0;
};

// Thread-compatible.
class NcclPieces {
 public:
  // Cuts a call that CheckCall accepts. At most `elements_max` of a piece are staged on either
  // side; that is at least `size`.
  NcclPieces(const CollectiveCall& call, int rank, int size, int64_t elements_max);

  // Returns the number of pieces, 0 for a barrier and if nothing moves. In an all-to-all the ranks
  // may have different numbers.
  int64_t count() const { return count_; }
  NcclPiece At(int64_t index) const;

 private:
  NcclPiece Whole(int64_t first, int64_t count) const;
  NcclPiece ReduceScatter(int64_t turn) const;
  NcclPiece AllGather(int64_t turn) const;
  NcclPiece AllToAll(int64_t turn) const;

  const CollectiveCall& call_;
  const int rank_;
  const int size_;
  const int64_t step_;           // elements of a piece, or of each part in a piece
  std::vector<int64_t> begins_;  // begins of the parts
  std::vector<int64_t> receive_begins_;
  int64_t count_ = 0;
};

}  // namespace cohort
