#include "tests/support/communicators/shared_work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace cohort {

namespace {

// What two sources and a result of a block need fits into the second cache.
constexpr size_t kBlockBytes = size_t{64} << 10;
// Waking another thread takes as long as some 10 us of work.
constexpr size_t kPieceBytes = size_t{128} << 10;

std::vector<std::byte*> AllOutputs(absl::Span<const CollectiveCall> calls, size_t offset) {
  std::vector<std::byte*> outputs;
  for (const CollectiveCall& call : calls) outputs.push_back(call.output.data() + offset);
  return outputs;
}

}  // namespace

SharedWork::SharedWork(absl::Span<const CollectiveCall> calls)
    : reduction_{calls[0].dtype, calls[0].reduce},
      element_bytes_(std::max<size_t>(ElementSize(calls[0].dtype), 1)) {
  const CollectiveCall& call = calls[0];
  const auto root = static_cast<size_t>(call.root);
  if (call.reduce == ReduceOp::kMean) divisor_ = static_cast<int64_t>(calls.size());
  switch (call.op) {
    case CollectiveOp::kAllReduce:
      AddReduced(calls, 0, call.count, AllOutputs(calls, 0));
      break;
    case CollectiveOp::kReduce:
      AddReduced(calls, 0, call.count, {calls[root].output.data()});
      break;
    case CollectiveOp::kBroadcast:
      runs_.push_back({call.count, {calls[root].input.data()}, AllOutputs(calls, 0)});
      break;
    case CollectiveOp::kReduceScatter:
      AddScattered(calls);
      break;
    case CollectiveOp::kAllGather:
      AddGathered(calls);
      break;
    case CollectiveOp::kAllToAll:
      AddExchanged(calls);
      break;
    case CollectiveOp::kBarrier:
      break;
  }
  for (const Run& run : runs_) elements_ += run.elements;
}

void SharedWork::AddReduced(absl::Span<const CollectiveCall> calls, int64_t offset,
                            int64_t elements, std::vector<std::byte*> targets) {
  Run run{elements, {}, std::move(targets)};
  for (const CollectiveCall& call : calls) {
    run.sources.push_back(call.input.data() + static_cast<size_t>(offset) * element_bytes_);
  }
  runs_.push_back(std::move(run));
}

void SharedWork::AddScattered(absl::Span<const CollectiveCall> calls) {
  int64_t offset = 0;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    AddReduced(calls, offset, calls[0].counts[rank], {calls[rank].output.data()});
    offset += calls[0].counts[rank];
  }
}

void SharedWork::AddGathered(absl::Span<const CollectiveCall> calls) {
  int64_t offset = 0;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    runs_.push_back({calls[0].counts[rank],
                     {calls[rank].input.data()},
                     AllOutputs(calls, static_cast<size_t>(offset) * element_bytes_)});
    offset += calls[0].counts[rank];
  }
}

void SharedWork::AddExchanged(absl::Span<const CollectiveCall> calls) {
  std::vector<size_t> sent(calls.size());  // bytes of each input that are in runs
  for (size_t to = 0; to < calls.size(); ++to) {
    size_t received = 0;
    for (size_t from = 0; from < calls.size(); ++from) {
      const int64_t elements = calls[from].counts[to];
      runs_.push_back({elements,
                       {calls[from].input.data() + sent[from]},
                       {calls[to].output.data() + received}});
      sent[from] += static_cast<size_t>(elements) * element_bytes_;
      received += static_cast<size_t>(elements) * element_bytes_;
    }
  }
}

int SharedWork::PiecesFor(int pieces_max) const {
  size_t ways = 1;
  for (const Run& run : runs_) ways = std::max(ways, run.sources.size());
  const size_t bytes = static_cast<size_t>(elements_) * element_bytes_ * ways;
  return static_cast<int>(
      std::clamp<size_t>(bytes / kPieceBytes, 1, static_cast<size_t>(std::max(pieces_max, 1))));
}

void SharedWork::Do(int piece, int pieces) const {
  // Whole cache lines, so that two tasks never write the same one of an aligned output.
  const int64_t line = 64;
  const auto border = [&](int64_t part) {
    return part == pieces ? elements_ : elements_ / pieces * part / line * line;
  };
  int64_t begin = border(piece);
  const int64_t end = border(piece + 1);
  int64_t run_begin = 0;
  for (const Run& run : runs_) {
    const int64_t run_end = run_begin + run.elements;
    if (begin < std::min(end, run_end)) {
      DoRun(run, begin - run_begin, std::min(end, run_end) - begin);
      begin = std::min(end, run_end);
    }
    run_begin = run_end;
  }
}

void SharedWork::DoRun(const Run& run, int64_t first, int64_t elements) const {
  const auto block = static_cast<int64_t>(kBlockBytes / element_bytes_);
  for (int64_t done = 0; done < elements; done += block) {
    DoBlock(run, static_cast<size_t>(first + done) * element_bytes_,
            static_cast<size_t>(std::min(block, elements - done)));
  }
}

void SharedWork::DoBlock(const Run& run, size_t offset, size_t elements) const {
  const std::byte* result = run.sources[0] + offset;
  size_t made = 0;  // targets that have it
  if (run.sources.size() > 1) {
    absl::InlinedVector<Operand, 8> operands;
    for (const std::byte* source : run.sources) operands.push_back({source + offset});
    CombineTree(reduction_, operands, elements, {run.targets[0] + offset, false, divisor_});
    result = run.targets[0] + offset;
    made = 1;
  }
  for (; made < run.targets.size(); ++made) {
    std::byte* const target = run.targets[made] + offset;
    if (target != result) std::memcpy(target, result, elements * element_bytes_);
  }
}

}  // namespace cohort
