#include "worker/collective/nccl/nccl_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "tests/unit/worker/collective/conformance/cases.h"

namespace cohort {
namespace {

using Kind = NcclStep::Kind;

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduce,
                                 CollectiveOp::kBroadcast, CollectiveOp::kReduceScatter,
                                 CollectiveOp::kAllGather, CollectiveOp::kAllToAll};

std::vector<NcclPiece> PiecesOf(const CollectiveCall& call, int rank, int size, int64_t max) {
  const NcclPieces pieces(call, rank, size, max);
  std::vector<NcclPiece> all;
  for (int64_t i = 0; i < pieces.count(); ++i) all.push_back(pieces.At(i));
  return all;
}

// Every element of the call's memory is copied once, and no more are staged than there may be.
void ExpectCopiedOnce(const std::vector<NcclPiece>& pieces, int64_t elements, bool in) {
  std::vector<int> copies(static_cast<size_t>(elements));
  for (const NcclPiece& piece : pieces) {
    for (const NcclCopy& copy : in ? piece.in : piece.out) {
      EXPECT_LE(copy.in_staging + copy.count, in ? piece.staged_in : piece.staged_out);
      for (int64_t i = 0; i < copy.count; ++i) ++copies[static_cast<size_t>(copy.in_call + i)];
    }
  }
  EXPECT_TRUE(std::all_of(copies.begin(), copies.end(), [](int times) { return times == 1; }));
}

// Of all collectives of a rank in their order, what NCCL wants to be equal on all of them.
std::vector<std::tuple<Kind, int, int64_t>> CollectivesOf(const std::vector<NcclPiece>& pieces) {
  std::vector<std::tuple<Kind, int, int64_t>> collectives;
  for (const NcclPiece& piece : pieces) {
    for (const NcclStep& step : piece.steps) {
      if (step.kind == Kind::kSend || step.kind == Kind::kReceive) continue;
      collectives.emplace_back(step.kind, step.peer, step.count);
    }
  }
  return collectives;
}

std::vector<int64_t> CountsOf(const std::vector<NcclPiece>& pieces, Kind kind, int peer) {
  std::vector<int64_t> counts;
  for (const NcclPiece& piece : pieces) {
    for (const NcclStep& step : piece.steps) {
      if (step.kind == kind && step.peer == peer) counts.push_back(step.count);
    }
  }
  return counts;
}

void CheckCalls(const std::vector<CollectiveCall>& calls, int64_t max) {
  const int size = static_cast<int>(calls.size());
  std::vector<std::vector<NcclPiece>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const CollectiveCall& call = calls[static_cast<size_t>(rank)];
    ranks.push_back(PiecesOf(call, rank, size, max));
    ExpectCopiedOnce(ranks.back(), InputElements(call, rank), true);
    ExpectCopiedOnce(ranks.back(), OutputElements(call, rank), false);
    for (const NcclPiece& piece : ranks.back()) {
      EXPECT_LE(std::max(piece.staged_in, piece.staged_out), max);
      EXPECT_FALSE(piece.steps.empty());
    }
    EXPECT_EQ(CollectivesOf(ranks.back()), CollectivesOf(ranks[0])) << "rank " << rank;
  }
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      EXPECT_EQ(CountsOf(ranks[static_cast<size_t>(from)], Kind::kSend, to),
                CountsOf(ranks[static_cast<size_t>(to)], Kind::kReceive, from));
    }
  }
}

TEST(NcclPieces, OfAllRanksFitTogetherAndCoverTheCall) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const RandomStream random(seed, "pieces");
    const int size = 1 + static_cast<int>(random.Bits(0) % 5);
    CollectiveCall call;
    call.op = kOps[random.Bits(1) % std::size(kOps)];
    call.count = static_cast<int64_t>(random.Bits(2) % 40);
    call.root = static_cast<int>(random.Bits(3) % static_cast<uint64_t>(size));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", OpName(call.op), " of ", size));
    const auto longest = static_cast<int64_t>(random.Bits(4) % 40);
    CheckCalls(WithParts(size, call, longest), size + static_cast<int64_t>(random.Bits(5) % 20));
    if (HasFailure()) return;
  }
}

TEST(NcclPieces, EqualPartsAreOneOperation) {
  CollectiveCall call;
  call.counts = {20, 20, 20};
  const std::pair<CollectiveOp, Kind> kinds[] = {
      {CollectiveOp::kReduceScatter, Kind::kReduceScatter},
      {CollectiveOp::kAllGather, Kind::kAllGather}};
  for (const auto& [op, kind] : kinds) {
    call.op = op;
    const std::vector<NcclPiece> pieces = PiecesOf(call, 1, 3, 24);
    ASSERT_EQ(pieces.size(), 3u);  // 8, 8 and 4 of each part
    for (const NcclPiece& piece : pieces) {
      ASSERT_EQ(piece.steps.size(), 1u);
      EXPECT_EQ(piece.steps[0].kind, kind);
    }
    EXPECT_EQ(pieces[2].steps[0].count, 4);
  }
}

// One rank has nearly all: the others' parts are not filled up.
TEST(NcclPieces, UnequalPartsMoveNoPadding) {
  CollectiveCall call;
  call.op = CollectiveOp::kReduceScatter;
  call.counts = {1, 0, 1000};
  int64_t moved = 0;
  for (const NcclPiece& piece : PiecesOf(call, 0, 3, 30)) {
    for (const NcclStep& step : piece.steps) moved += step.count;
  }
  EXPECT_EQ(moved, 1001);
}

TEST(NcclPieces, NothingMovesInABarrierNorWhereNothingIs) {
  CollectiveCall call;
  call.count = 5;
  EXPECT_EQ(NcclPieces(call, 0, 2, 8).count(), 0);
  call.op = CollectiveOp::kAllGather;
  call.counts = {0, 0};
  EXPECT_EQ(NcclPieces(call, 0, 2, 8).count(), 0);
}

}  // namespace
}  // namespace cohort
