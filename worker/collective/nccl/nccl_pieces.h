#pragma once

// The way of a call through NCCL. A call is cut into pieces that fit into staging memory. Each
// piece has copies into staging memory, the operations of one group of NCCL, and copies out. The
// cutting is pure arithmetic, and gives the same result on all ranks where NCCL needs it: all ranks
// make the same operations in the same order, and both ends of a send cut it alike.
//
// NCCL's reduce-scatter and all-gather know only parts of equal size. A piece takes the same number
// of elements of each rank's part. If all parts have equally many elements left, the piece is one
// reduce-scatter or all-gather. Otherwise the piece is one reduce or broadcast for each part that
// has elements left, which moves the same elements without padding.
//
// All numbers are elements. In an operation in place, an element of the input is copied in with its
// piece or earlier, and is overwritten only when that piece is copied out.

#include <cstdint>
#include <vector>

#include "worker/collective/collective_call.h"

namespace cohort {

struct NcclCopy {
  int64_t in_call = 0;  // first element of the copy in the call's input or output
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
  int peer = 0;  // other rank of a send or receive; destination of a reduce; source of a broadcast
  int64_t send_first = 0;     // first element of the operation's input, in the staged input
  int64_t receive_first = 0;  // first element of the operation's result, in the staged output
  // Number of elements of the operation; in kAllGather and kReduceScatter, of each rank's part.
  int64_t count = 0;
};

struct NcclPiece {
  std::vector<NcclCopy> in;
  std::vector<NcclStep> steps;
  std::vector<NcclCopy> out;
  int64_t staged_in = 0;  // number of elements that the piece has in the staged input
  int64_t staged_out = 0;
};

// The pieces into which one call is cut. Thread-compatible.
class NcclPieces {
 public:
  // Cuts a call that has passed CheckCall(). A piece stages at most `elements_max` elements of
  // input and as many of output; `elements_max` is at least `size`.
  NcclPieces(const CollectiveCall& call, int rank, int size, int64_t elements_max);

  // Returns the number of pieces: 0 for a barrier, and if no element moves. In an all-to-all, ranks
  // may have different numbers of pieces.
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
  // Number of elements in a piece, or in each rank's part of a piece if the call has parts.
  const int64_t step_;
  std::vector<int64_t> begins_;  // first element of each rank's part, in the call's input or output
  std::vector<int64_t> receive_begins_;
  int64_t count_ = 0;
};

}  // namespace cohort
