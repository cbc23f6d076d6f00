#include "tests/unit/worker/collective/conformance/group_run.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace cohort {

namespace {

constexpr auto kBorder = std::byte{0xa5};
constexpr absl::Duration kTooLong = absl::Minutes(2);

size_t OffsetOfOwn(const CollectiveCall& call, int rank) {
  const auto end = call.counts.begin() + rank;
  return static_cast<size_t>(std::accumulate(call.counts.begin(), end, int64_t{0})) *
         ElementSize(call.dtype);
}

}  // namespace

bool Offers(CollectiveOp op, CollectiveAlgorithm algorithm) {
  using A = CollectiveAlgorithm;
  switch (op) {
    case CollectiveOp::kAllReduce:
      return algorithm != A::kTree && algorithm != A::kChain;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
      return algorithm == A::kAuto || algorithm == A::kRing || algorithm == A::kTwoShot;
    case CollectiveOp::kBroadcast:
      return algorithm == A::kAuto || algorithm == A::kTree || algorithm == A::kChain;
    case CollectiveOp::kReduce:
      return algorithm == A::kAuto || algorithm == A::kTree || algorithm == A::kTwoShot;
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kBarrier:
      return algorithm == A::kAuto;
  }
  return false;
}

GuardedMemory::GuardedMemory(Communicator& communicator, size_t bytes, bool allocate)
    : bytes_(bytes) {
  if (allocate) {
    auto buffer = communicator.Allocate(bytes + 2 * kGuard);
    COHORT_CHECK(buffer.ok(), "a communicator has memory for a test");
    buffer_ = *std::move(buffer);
  } else {
    buffer_ = Buffer::Allocate(bytes + 2 * kGuard);
  }
  std::memset(buffer_->data(), static_cast<int>(kBorder), bytes + 2 * kGuard);
}

std::vector<std::byte> GuardedMemory::Content() const {
  return {buffer_->data() + kGuard, buffer_->data() + kGuard + bytes_};
}

bool GuardedMemory::BordersHold() const {
  for (size_t i = 0; i < kGuard; ++i) {
    if (buffer_->data()[i] != kBorder) return false;
    if (buffer_->data()[kGuard + bytes_ + i] != kBorder) return false;
  }
  return true;
}

struct GroupRun::RankState {
  CollectiveCall call;
  std::unique_ptr<GuardedMemory> input;
  std::unique_ptr<GuardedMemory> output;  // null: in the input, or the other way round
  std::shared_ptr<Event> done = std::make_shared<Event>();
  std::shared_ptr<absl::Status> status = std::make_shared<absl::Status>();
  bool started = false;
  size_t output_bytes = 0;
};

GroupRun::GroupRun(GroupUnderTest& group, std::vector<CollectiveCall> calls,
                   const std::vector<std::vector<std::byte>>& inputs, Place place, int turn)
    : group_(group) {
  for (size_t r = 0; r < calls.size(); ++r) {
    auto state = std::make_unique<RankState>();
    state->call = std::move(calls[r]);
    CollectiveCall& call = state->call;
    const int rank = static_cast<int>(r);
    Communicator& communicator = group.Of(rank);
    const bool allocate = (turn + rank) % 2 == 0;
    const size_t element = ElementSize(call.dtype);
    const size_t in_bytes = static_cast<size_t>(InputElements(call, rank)) * element;
    const size_t out_bytes = static_cast<size_t>(OutputElements(call, rank)) * element;
    COHORT_CHECK(inputs[r].size() == in_bytes, "the input that the call says");
    const bool in_output = place == Place::kInPlace && call.op == CollectiveOp::kAllGather;
    const bool in_input = place == Place::kInPlace && call.op != CollectiveOp::kAllToAll &&
                          !in_output && in_bytes > 0;
    if (!in_output) {
      state->input = std::make_unique<GuardedMemory>(communicator, in_bytes, allocate);
      call.input = state->input->span();
    }
    if (in_input) {
      const size_t own = call.op == CollectiveOp::kReduceScatter ? OffsetOfOwn(call, rank) : 0;
      call.output = state->input->span().subspan(own, out_bytes);
    } else {
      state->output = std::make_unique<GuardedMemory>(communicator, out_bytes, allocate);
      call.output = state->output->span();
    }
    if (in_output) call.input = call.output.subspan(OffsetOfOwn(call, rank), in_bytes);
    if (in_bytes > 0) {
      std::memcpy(const_cast<std::byte*>(call.input.data()), inputs[r].data(), in_bytes);
    }
    ranks_.push_back(std::move(state));
  }
}

GroupRun::~GroupRun() {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    COHORT_CHECK(!ranks_[r]->started || ranks_[r]->done->HasHappened(),
                 "a test waits for its calls");
  }
}

void GroupRun::Start(int rank) {
  RankState& state = *ranks_[static_cast<size_t>(rank)];
  state.started = true;
  group_.Of(rank).Start(state.call, [done = state.done, status = state.status](absl::Status end) {
    COHORT_CHECK(!done->HasHappened(), "a call ends once");
    *status = std::move(end);
    done->Notify();
  });
}

void GroupRun::StartAll() {
  for (size_t r = 0; r < ranks_.size(); ++r) Start(static_cast<int>(r));
}

bool GroupRun::IsDone(int rank) const {
  return ranks_[static_cast<size_t>(rank)]->done->HasHappened();
}

void GroupRun::Forget(int rank) { ranks_[static_cast<size_t>(rank)]->started = false; }

bool GroupRun::Wait() {
  for (const auto& state : ranks_) {
    if (state->started && !group_.waiter().Wait(*state->done, kTooLong)) return false;
  }
  return true;
}

GroupResult GroupRun::Result() {
  GroupResult result;
  for (const auto& state : ranks_) {
    result.statuses.push_back(*state->status);
    result.outputs.emplace_back(state->call.output.begin(), state->call.output.end());
    result.inputs.emplace_back(state->call.input.begin(), state->call.input.end());
    if (state->input != nullptr) result.borders_hold &= state->input->BordersHold();
    if (state->output != nullptr) result.borders_hold &= state->output->BordersHold();
  }
  return result;
}

GroupResult RunGroup(GroupUnderTest& group, const std::vector<CollectiveCall>& calls,
                     const std::vector<std::vector<std::byte>>& inputs, Place place, int turn) {
  GroupRun run(group, calls, inputs, place, turn);
  run.StartAll();
  COHORT_CHECK(run.Wait(), "an operation hangs");
  return run.Result();
}

}  // namespace cohort
