#pragma once

// One rank's request for a collective operation. All ranks of a group make the same calls in the
// same order. The fields that must be equal on all ranks go into a fingerprint that travels with
// every frame; DescribeCall puts the same fields into words for error messages.
//
// Sizes are in elements, 64 bits wide. n is the size of the group, r the rank of the caller. The
// root is the rank that sends in a broadcast, and the rank that gets the result in a reduce.
//
//   op             input                      output                  counts
//   all-reduce     count                      count                   -
//   reduce         count                      count at root, else 0   -
//   broadcast      count at root, else 0      count                   -
//   reduce-scatter sum of counts              counts[r]               n, the same on all ranks
//   all-gather     counts[r]                  sum of counts           n, the same on all ranks
//   all-to-all     sum of counts              sum of receive_counts   n: what r sends to each rank;
//                                                                     receive_counts: what r gets
//                                                                     from each rank
//   barrier        0                          0                       -
//
// An operation may work in place: all-reduce, reduce and broadcast may have input == output;
// reduce-scatter may have output == the caller's part of the input, and all-gather input == the
// caller's part of the output. In every other call input and output must not overlap. A reduction
// that is not in place does not write its input.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace cohort {

inline constexpr int kRanksMax = 1024;  // largest number of ranks in a group

enum class CollectiveOp : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kBarrier,
};

// The arithmetic of a reduction. kMean divides the sum by n once, in the accumulator type; it is
// refused for integers. Integer sums and products wrap. A NaN operand makes kMin and kMax NaN. For
// zeros of both signs, kMin and kMax give either zero, the same zero on all ranks.
enum class ReduceOp : uint8_t { kSum, kMean, kMin, kMax, kProd };

// The algorithm that a caller asks for. kAuto leaves the choice to the implementation, which
// decides by static facts alone (algorithm_choice.h). An implementation that has only one
// algorithm, such as shared memory, ignores the request; its results have the same bits as those of
// any algorithm here but kRing, which sums in another order. NCCL ignores the request as well, and
// has its own order of sums.
enum class CollectiveAlgorithm : uint8_t {
  kAuto,
  kOneShot,  // every rank sends all its elements to every other rank
  kTwoShot,  // every rank owns and sums a chunk of the elements, and sends the sum to all others
  kRecursiveDoubling,  // pairs of ranks exchange partial sums, log2 n times
  kRing,   // each chunk of the elements is summed along the ring of ranks; tf.distribute's RING
  kTree,   // broadcast or reduce along a binary tree of ranks
  kChain,  // broadcast in segments that each rank sends on to the next rank
  kHierarchical,  // a sum within each host, then a sum across hosts
};

struct CollectiveCall {
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;  // arithmetic of a reduction; other operations ignore it
  // The element type: float32, float64, float16, bfloat16, int32 or int64 in a reduction, any type
  // in other operations. 16-bit floats are summed in float32 and rounded once.
  DType dtype = DType::kFloat32;
  std::string name;  // shown in messages: "dense/kernel", "bucket 3"; the same on all ranks
  int64_t count = 0;
  std::vector<int64_t> counts;
  std::vector<int64_t> receive_counts;
  int root = 0;
  // A hash of how the elements are divided into several tensors; the same on all ranks.
  uint64_t layout = 0;
  // The requested algorithm; the same on all ranks.
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  // The time that the call may take. A call that takes longer ends the group with
  // DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::InfiniteDuration();
  // The caller's memory. Until the call is done, the memory stays valid, and the caller neither
  // changes the input nor reads the output.
  absl::Span<const std::byte> input;
  absl::Span<std::byte> output;
};

// Returns true if the operation combines elements of several ranks.
bool Reduces(CollectiveOp op);
// Returns true if a call of this operation has a count for each rank.
bool HasCounts(CollectiveOp op);
int64_t SumOfCounts(absl::Span<const int64_t> counts);
// Returns true for the integer types that can be reduced: int32 and int64.
bool IsInteger(DType dtype);

absl::string_view OpName(CollectiveOp op);                  // such as "all-reduce" for kAllReduce
absl::string_view ReduceName(ReduceOp reduce);              // such as "sum" for kSum
absl::string_view AlgorithmName(CollectiveAlgorithm name);  // such as "two-shot" for kTwoShot

// Returns the call in words: "all-reduce sum float32[1000] 'dense/kernel'" or "broadcast float32[4]
// from rank 2 'bias'".
std::string DescribeCall(const CollectiveCall& call);

// Returns a hash that is equal on two ranks if their calls fit together, in every process and
// build. It covers op, reduction, type, the counts that all ranks share, root, layout, algorithm
// and name.
uint64_t FingerprintOf(const CollectiveCall& call);

// Return the number of elements in the input and in the output of rank `rank`, by the table above.
int64_t InputElements(const CollectiveCall& call, int rank);
int64_t OutputElements(const CollectiveCall& call, int rank);

// Checks a call of rank `rank` in a group of `size` ranks. Errors: INVALID_ARGUMENT that names the
// call, the wrong field with its value, and the remedy.
absl::Status CheckCall(const CollectiveCall& call, int rank, int size);

}  // namespace cohort
