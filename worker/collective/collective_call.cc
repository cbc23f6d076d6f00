#include "worker/collective/collective_call.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status.h"

namespace cohort {

bool Reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kReduce;
}

bool HasCounts(CollectiveOp op) {
  return op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kAllToAll;
}

int64_t SumOfCounts(absl::Span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

bool IsInteger(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

namespace {

bool HasRoot(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce;
}

bool IsReducible(DType dtype) {
  return IsInteger(dtype) || dtype == DType::kFloat32 || dtype == DType::kFloat64 ||
         dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

absl::Status Refuse(const CollectiveCall& call, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(DescribeCall(call), ": ", why));
}

// The upper bound of the number of elements in one call. Within this bound, neither a sum of counts
// nor a size in bytes (of 8 bytes an element) overflows 64 bits.
constexpr int64_t kElementsMax = int64_t{1} << 50;

absl::Status CheckCounts(const CollectiveCall& call, const std::vector<int64_t>& counts,
                         absl::string_view field, int size) {
  if (static_cast<int>(counts.size()) != size) {
    return Refuse(call, absl::StrCat(field, " has ", counts.size(), " numbers and the group ", size,
                                     " ranks; give one for each"));
  }
  int64_t sum = 0;
  for (const int64_t count : counts) {
    // Each count is compared with what is left of kElementsMax, so that `sum` cannot overflow.
    if (count < 0 || count > kElementsMax - sum) {
      return Refuse(call, absl::StrCat(field, " has the number ", count, "; give 0 to ",
                                       kElementsMax, " in all"));
    }
    sum += count;
  }
  return absl::OkStatus();
}

// Checks that a rank of an all-to-all sends itself as many elements as it means to receive from
// itself, which no other rank could check. Errors: INVALID_ARGUMENT naming both numbers.
absl::Status CheckOwnPart(const CollectiveCall& call, int rank) {
  const int64_t sent = call.counts[static_cast<size_t>(rank)];
  const int64_t received = call.receive_counts[static_cast<size_t>(rank)];
  if (sent == received) return absl::OkStatus();
  return Refuse(call, absl::StrCat("rank ", rank, " sends ", sent,
                                   " elements to itself, and means to receive ", received));
}

absl::Status CheckNumbers(const CollectiveCall& call, int rank, int size) {
  if (HasCounts(call.op)) RETURN_IF_ERROR(CheckCounts(call, call.counts, "counts", size));
  if (call.op == CollectiveOp::kAllToAll) {
    RETURN_IF_ERROR(CheckCounts(call, call.receive_counts, "receive_counts", size));
    RETURN_IF_ERROR(CheckOwnPart(call, rank));
  }
  if (call.count < 0 || call.count > kElementsMax) {
    return Refuse(call, absl::StrCat("count is ", call.count, "; give 0 to ", kElementsMax));
  }
  if (HasRoot(call.op) && (call.root < 0 || call.root >= size)) {
    return Refuse(call, absl::StrCat("root is ", call.root, "; give 0 to ", size - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckType(const CollectiveCall& call) {
  if (call.op != CollectiveOp::kBarrier && ElementSize(call.dtype) == 0) {
    return Refuse(call, "the dtype is undefined; give the type of the elements");
  }
  if (!Reduces(call.op)) return absl::OkStatus();
  if (!IsReducible(call.dtype)) {
    return Refuse(call, absl::StrCat("dtype ", DTypeName(call.dtype),
                                     " is not reduced; cast to float32, float64, float16, "
                                     "bfloat16, int32 or int64"));
  }
  if (call.reduce == ReduceOp::kMean && IsInteger(call.dtype)) {
    return Refuse(call, absl::StrCat("the mean of ", DTypeName(call.dtype),
                                     " would be cut off; reduce with sum, or cast to a float"));
  }
  return absl::OkStatus();
}

// Checks that the input or the output has exactly the bytes of `elements` elements. Errors:
// INVALID_ARGUMENT naming `field` and both numbers of bytes.
absl::Status CheckSpan(const CollectiveCall& call, absl::string_view field, size_t bytes,
                       int64_t elements) {
  const size_t wanted = static_cast<size_t>(elements) * ElementSize(call.dtype);
  if (bytes == wanted) return absl::OkStatus();
  return Refuse(call, absl::StrCat(field, " has ", bytes, " bytes; give ", wanted, " for ",
                                   elements, " elements"));
}

}  // namespace

absl::string_view OpName(CollectiveOp op) {
  static constexpr absl::string_view kNames[] = {
      "all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all", "barrier"};
  return kNames[static_cast<size_t>(op)];
}

absl::string_view ReduceName(ReduceOp reduce) {
  static constexpr absl::string_view kNames[] = {"sum", "mean", "min", "max", "prod"};
  return kNames[static_cast<size_t>(reduce)];
}

absl::string_view AlgorithmName(CollectiveAlgorithm algorithm) {
  static constexpr absl::string_view kNames[] = {
      "auto", "one-shot", "two-shot", "recursive doubling",
      "ring", "tree",     "chain",    "hierarchical"};
  return kNames[static_cast<size_t>(algorithm)];
}

std::string DescribeCall(const CollectiveCall& call) {
  std::string text(OpName(call.op));
  if (Reduces(call.op)) absl::StrAppend(&text, " ", ReduceName(call.reduce));
  if (call.op != CollectiveOp::kBarrier) {
    // In an all-to-all each rank has counts of its own, so two ranks may describe one call by
    // different numbers of elements.
    const int64_t elements = HasCounts(call.op) ? SumOfCounts(call.counts) : call.count;
    absl::StrAppend(&text, " ", DTypeName(call.dtype), "[", elements, "]");
  }
  if (call.op == CollectiveOp::kBroadcast) absl::StrAppend(&text, " from rank ", call.root);
  if (call.op == CollectiveOp::kReduce) absl::StrAppend(&text, " to rank ", call.root);
  if (call.algorithm != CollectiveAlgorithm::kAuto) {
    absl::StrAppend(&text, " by ", AlgorithmName(call.algorithm));
  }
  if (call.layout != 0) absl::StrAppend(&text, " of layout ", absl::Hex(call.layout));
  if (!call.name.empty()) absl::StrAppend(&text, " '", call.name, "'");
  return text;
}

uint64_t FingerprintOf(const CollectiveCall& call) {
  uint64_t hash = StableHash(call.name);
  // Each field is mixed with the hash of the fields before it, so the order of the fields counts.
  const auto add = [&hash](uint64_t value) {
    hash = Mix64(hash + 0x9e3779b97f4a7c15u + value * 0xff51afd7ed558ccdu);
  };
  add(static_cast<uint64_t>(call.op));
  if (Reduces(call.op)) add(static_cast<uint64_t>(call.reduce));
  if (call.op != CollectiveOp::kBarrier) add(static_cast<uint64_t>(call.dtype));
  // The counts of an all-to-all differ between ranks; FrameFingerprint compares them in pairs of
  // ranks.
  if (call.op == CollectiveOp::kReduceScatter || call.op == CollectiveOp::kAllGather) {
    for (const int64_t count : call.counts) add(static_cast<uint64_t>(count));
  } else if (call.op != CollectiveOp::kAllToAll) {
    add(static_cast<uint64_t>(call.count));
  }
  if (HasRoot(call.op)) add(static_cast<uint64_t>(call.root));
  add(call.layout);
  add(static_cast<uint64_t>(call.algorithm));
  return hash;
}

int64_t InputElements(const CollectiveCall& call, int rank) {
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
      return call.count;
    case CollectiveOp::kBroadcast:
      return rank == call.root ? call.count : 0;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return SumOfCounts(call.counts);
    case CollectiveOp::kAllGather:
      return call.counts[static_cast<size_t>(rank)];
    case CollectiveOp::kBarrier:
      return 0;
  }
  return 0;
}

int64_t OutputElements(const CollectiveCall& call, int rank) {
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kBroadcast:
      return call.count;
    case CollectiveOp::kReduce:
      return rank == call.root ? call.count : 0;
    case CollectiveOp::kReduceScatter:
      return call.counts[static_cast<size_t>(rank)];
    case CollectiveOp::kAllGather:
      return SumOfCounts(call.counts);
    case CollectiveOp::kAllToAll:
      return SumOfCounts(call.receive_counts);
    case CollectiveOp::kBarrier:
      return 0;
  }
  return 0;
}

absl::Status CheckCall(const CollectiveCall& call, int rank, int size) {
  // The counts and the root are checked first, because InputElements() reads `counts` at index
  // `rank`.
  RETURN_IF_ERROR(CheckNumbers(call, rank, size));
  RETURN_IF_ERROR(CheckType(call));
  RETURN_IF_ERROR(CheckSpan(call, "input", call.input.size(), InputElements(call, rank)));
  return CheckSpan(call, "output", call.output.size(), OutputElements(call, rank));
}

}  // namespace cohort
