#pragma once

// One rank's request for a collective operation. All ranks of a group make the same calls in the
// same order; what must be equal on all of them is in the fingerprint that travels with every
// frame, and in words in the description that an error shows.
//
// Sizes are in elements, 64 bits wide. n is the size of the group, r the rank of the caller.
//
//   op             input                      output                  counts
//   all-reduce     count                      count                   -
//   reduce         count                      count at root, else 0   -
//   broadcast      count at root, else 0      count                   -
//   reduce-scatter sum of counts              counts[r]               n, the same on all ranks
//   all-gather     counts[r]                  sum of counts           n, the same on all ranks
//   all-to-all     sum of counts              sum of receive_counts   n, what r sends to each;
//                                                                     receive_counts: gets of each
//   barrier        0                          0                       -
//
// In place: all-reduce, reduce and broadcast may have input == output; reduce-scatter may have
// output == its own part of input, and all-gather input == its own part of output. Otherwise the
// two must not overlap. Where a reduction is not in place the input is not written.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace cohort {

inline constexpr int kRanksMax = 1024;  // upper bound of a group's size

enum class CollectiveOp : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kBarrier,
};

// kMean divides the sum by n once, in the accumulator; it is refused for integers. Integer sums and
// products wrap. A NaN makes kMin and kMax NaN; of zeros of both signs they give either, the same
// on all ranks.
enum class ReduceOp : uint8_t { kSum, kMean, kMin, kMax, kProd };

// kAuto lets the implementation choose from static facts alone (algorithm_choice.h). An
// implementation that has one way only, such as shared memory, ignores the wish, as the bits are
// the same; only kRing sums in another order. NCCL has an order of its own and ignores the wish.
enum class CollectiveAlgorithm : uint8_t {
  kAuto,
  kOneShot,            // everybody sends all to everybody
  kTwoShot,            // slices to their owners, sums back
  kRecursiveDoubling,  // log2 n exchanges
  kRing,               // what tf.distribute calls RING
  kTree,               // broadcast and reduce along a binary tree
  kChain,              // broadcast in segments from rank to rank
  kHierarchical,       // within each host, then across hosts
};

struct CollectiveCall {
  CollectiveOp op = CollectiveOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;  // for reductions
  // float32, float64, float16, bfloat16, int32 or int64; any type where nothing is reduced. 16-bit
  // floats are summed in float32 and rounded once.
  DType dtype = DType::kFloat32;
  std::string name;  // shown to people: "dense/kernel", "bucket 3"; the same on all ranks
  int64_t count = 0;
  std::vector<int64_t> counts;
  std::vector<int64_t> receive_counts;
  int root = 0;
  // Hash of how several tensors lie in these elements; the same on all ranks.
  uint64_t layout = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;  // the same on all ranks
  // The group is aborted with DEADLINE_EXCEEDED when the call takes longer.
  absl::Duration timeout = absl::InfiniteDuration();
  // The caller's memory. It stays valid, the input unchanged and the output unread, until done.
  absl::Span<const std::byte> input;
  absl::Span<std::byte> output;
};

absl::string_view OpName(CollectiveOp op);                  // "all-reduce"
absl::string_view ReduceName(ReduceOp reduce);              // "sum"
absl::string_view AlgorithmName(CollectiveAlgorithm name);  // "two-shot"

// Returns "all-reduce sum float32[1000] 'dense/kernel'" or "broadcast float32[4] from rank 2
// 'bias'".
std::string DescribeCall(const CollectiveCall& call);

// Returns a number that is equal on two ranks if their calls fit together: op, reduction, type,
// counts that all ranks share, root, layout, algorithm and name. The same in every process and
// build.
uint64_t FingerprintOf(const CollectiveCall& call);

// Return the elements of the caller's input and output, as in the table.
int64_t InputElements(const CollectiveCall& call, int rank);
int64_t OutputElements(const CollectiveCall& call, int rank);

// Errors: INVALID_ARGUMENT naming the call, the field, its value and the remedy.
absl::Status CheckCall(const CollectiveCall& call, int rank, int size);

}  // namespace cohort
