#include "worker/collective/nccl/nccl_communicator.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "worker/collective/nccl/nccl_library.h"

namespace cohort {

namespace {

// The interval at which the thread looks for errors on the GPU. Neither NCCL nor CUDA wakes a
// thread when work fails; work that ends well wakes the thread (call_then).
constexpr absl::Duration kLookAroundEvery = absl::Milliseconds(20);
// The shortest and the longest pause between two polls whether NCCL has put an operation on the
// GPU.
constexpr absl::Duration kAskAgainAfterMin = absl::Microseconds(20);
constexpr absl::Duration kAskAgainAfterMax = absl::Milliseconds(1);

absl::Status EndsBeforeJoined() {
  return absl::CancelledError("a rank ends before the ranks have joined");
}

// The messages that the ranks exchange before they join NCCL: this rank's, and those of all ranks.
struct Exchange {
  std::array<std::byte, NcclPass::kBytes> own;
  std::vector<std::byte> all;
};

}  // namespace

NcclCommunicator::Posting::Posting(const NcclCall& posted, const NcclOptions& options)
    : call(posted),
      elements(call.call, options.group.size),
      pieces(call.call, options.group.rank, options.group.size,
             static_cast<int64_t>(options.piece_bytes / std::max(elements.bytes(), size_t{1}))) {}

NcclCommunicator::NcclCommunicator(Clock& clock, Executor& executor,
                                   absl::StatusOr<const NcclTable*> table,
                                   std::unique_ptr<LaneCommunicator> control, NcclOptions options,
                                   Done joined)
    : clock_(clock),
      executor_(executor),
      table_(std::move(table)),
      options_(std::move(options)),
      recorder_(std::make_shared<FlightRecorder>(
          FlightRecorder::Owner{options_.group.name, options_.group.rank, options_.group.size,
                                options_.group.tasks, "NCCL"})),
      calls_(std::make_shared<NcclCalls>(kCallsToJoin)),
      control_(std::move(control)) {
  COHORT_CHECK(options_.piece_bytes / sizeof(double) >= static_cast<size_t>(options_.group.size),
               "a piece has an element of each rank");
  // The callback shares calls_, because it may run after this communicator is destroyed.
  control_->WhenAborted([calls = calls_](const absl::Status& cause) { calls->End(cause); });
  thread_ = std::thread([this, joined = std::move(joined)]() mutable { Serve(std::move(joined)); });
  pthread_setname_np(thread_.native_handle(), "nccl-group");
}

NcclCommunicator::~NcclCommunicator() {
  // Joining may wait for other ranks. The control group's end, which ends this wait too, comes by
  // the executor, whose only free thread may be the one that runs this destructor.
  if (!joined_) control_->Abort(EndsBeforeJoined());
  calls_->Stop();
  thread_.join();
}

absl::StatusOr<std::shared_ptr<Buffer>> NcclCommunicator::Allocate(size_t bytes) {
  return Buffer::Allocate(bytes);
}

void NcclCommunicator::Start(CollectiveCall call, Done done) {
  calls_->Add({0, std::move(call), std::move(done), clock_.Now()}, [this](const NcclCall& added) {
    recorder_->Started({added.sequence, &added.call, CollectiveAlgorithm::kAuto, {}},
                       added.started);
  });
}

void NcclCommunicator::Abort(absl::Status root_cause) { control_->Abort(std::move(root_cause)); }

void NcclCommunicator::Serve(Done joined) {
  const absl::Status status = Join();
  if (status.ok()) {
    joined_ = true;
  } else {
    Fail(status);
    // `joined` gets the cause on which the control group has agreed, the same on all ranks.
    while (calls_->end().ok() && !calls_->stopped()) {
      calls_->WaitForEnd(absl::InfiniteDuration());
    }
  }
  const absl::Status agreed = calls_->end();
  executor_.Run([joined = std::move(joined),
                 end = status.ok() || agreed.ok() ? status : agreed]() mutable { joined(end); });
  // Only this thread puts work on the GPU, so the GPU gets pieces in the order of the calls.
  while (!calls_->stopped()) {
    if (!calls_->end().ok()) {
      End();
    } else if (!failed_) {
      AskForAgreement();
      PostAgreed();
      Collect();
      LookAround();
    }
    // While pieces are on the GPU, the thread also wakes to look for errors and for calls that take
    // too long.
    calls_->WaitForNews(under_way_.empty() ? absl::InfiniteDuration() : kLookAroundEvery);
  }
  device_.reset();
}

void NcclCommunicator::AskForAgreement() {
  // Every rank asks the control group about its calls in the order of their sequence numbers, so
  // that the questions of all ranks match.
  while (const NcclCall* const call = calls_->TakeNew()) {
    control_->Agree(call->call,
                    [calls = calls_, sequence = call->sequence](const absl::Status& status) {
                      calls->Answered(sequence, status);
                    });
  }
}

void NcclCommunicator::PostAgreed() {
  while (!failed_) {
    if (!posting_.has_value()) {
      // Calls are posted strictly by sequence number, because NCCL needs one order on all ranks.
      const NcclCall* const call = calls_->Agreed(next_to_post_);
      if (call == nullptr) return;
      posting_.emplace(*call, options_);
    }
    // All pieces of this call are posted, so the next call follows. Collect() completes this call,
    // unless it has no pieces.
    if (posting_->next == posting_->pieces.count()) {
      const uint64_t sequence = next_to_post_++;
      const bool nothing_moves = posting_->pieces.count() == 0;
      posting_.reset();
      if (nothing_moves) Complete(sequence, absl::OkStatus());
      continue;
    }
    // If all slots of staging memory are in use, Collect() goes on with this call when a slot is
    // free.
    if (under_way_.size() == NcclDevice::kSlots) return;
    const absl::Status posted = PostPiece();
    if (!posted.ok()) Fail(posted);
  }
}

absl::Status NcclCommunicator::PostPiece() {
  const size_t slot = pieces_posted_ % NcclDevice::kSlots;
  const NcclElements& elements = posting_->elements;
  NcclPiece piece = posting_->pieces.At(posting_->next);
  const std::byte* const input = posting_->call.call.input.data();
  const size_t element = ElementSize(posting_->call.call.dtype);
  for (const NcclCopy& copy : piece.in) {
    elements.ToNccl(
        input + static_cast<size_t>(copy.in_call) * element, copy.count,
        device_->StagedInput(slot) + static_cast<size_t>(copy.in_staging) * elements.bytes());
  }
  RETURN_IF_ERROR(device_->Post(slot, piece, elements));
  // Waits until NCCL's operations are on the GPU's stream: until then, the communicator takes no
  // other work (nccl_table.h).
  RETURN_IF_ERROR(WaitUntilPosted(absl::InfiniteFuture()));
  RETURN_IF_ERROR(device_->Finish(slot, piece, elements));
  ++pieces_posted_;
  const bool last = ++posting_->next == posting_->pieces.count();
  under_way_.push_back({&posting_->call, elements, std::move(piece), slot, last});
  return absl::OkStatus();
}

absl::Status NcclCommunicator::WaitUntilPosted(absl::Time deadline) {
  for (absl::Duration pause = kAskAgainAfterMin;; pause = std::min(2 * pause, kAskAgainAfterMax)) {
    absl::StatusOr<bool> posted = device_->HasPosted();
    if (!posted.ok() || *posted) return posted.status();
    // The end of the control group also ends this wait.
    RETURN_IF_ERROR(calls_->end());
    if (calls_->stopped()) return EndsBeforeJoined();
    if (clock_.Now() >= deadline) {
      return MakeError(
          absl::StatusCode::kDeadlineExceeded,
          absl::StrCat("the GPUs have not met within ", absl::FormatDuration(options_.join_timeout),
                       " although all ranks are there; NCCL_DEBUG=INFO tells which "
                       "addresses NCCL tries, NCCL_SOCKET_IFNAME chooses them"),
          proto::TRANSIENT);
    }
    LookForLateCalls();
    calls_->WaitForEnd(pause);
  }
}

void NcclCommunicator::Collect() {
  if (failed_ || pieces_collected_ == calls_->pieces_through()) return;
  // After an error, the GPU may report a piece as finished without having moved its elements.
  if (const absl::Status status = device_->Check(); !status.ok()) return Fail(status);
  for (const uint64_t through = calls_->pieces_through(); pieces_collected_ < through;) {
    PieceUnderWay& front = under_way_.front();
    const CollectiveCall& call = front.call->call;
    for (const NcclCopy& copy : front.piece.out) {
      front.elements.FromNccl(
          device_->StagedOutput(front.slot) +
              static_cast<size_t>(copy.in_staging) * front.elements.bytes(),
          copy.count,
          call.output.data() + static_cast<size_t>(copy.in_call) * ElementSize(call.dtype));
    }
    // The sequence number is copied, because pop_front() destroys `front`.
    const std::optional<uint64_t> done =
        front.last ? std::make_optional(front.call->sequence) : std::nullopt;
    under_way_.pop_front();
    ++pieces_collected_;
    if (done.has_value()) Complete(*done, absl::OkStatus());
    PostAgreed();  // the collected piece's slot of staging memory is free again
  }
}

void NcclCommunicator::LookAround() {
  if (under_way_.empty() || failed_) return;
  if (const absl::Status status = device_->Check(); !status.ok()) return Fail(status);
  LookForLateCalls();
}

// Logs a stall and ends the group at a timeout, for calls that all ranks have started. The control
// group does both for all other calls.
void NcclCommunicator::LookForLateCalls() {
  const absl::Time now = clock_.Now();
  const std::vector<const NcclCall*> agreed = calls_->AllAgreed();
  if (agreed.empty()) return;
  const NcclCall& oldest = *agreed[0];
  // Stalls are logged at most once in `stall_after`.
  const absl::Time quiet_since = std::max(oldest.started, stall_logged_);
  if (now - quiet_since >= options_.group.stall_after) {
    stall_logged_ = now;
    LogStalledCall({options_.group.name,
                    rank(),
                    oldest.sequence,
                    DescribeCall(oldest.call),
                    now - oldest.started,
                    {}});
  }
  for (const NcclCall* const one : agreed) {
    if (now - one->started < one->call.timeout) continue;
    return Fail(LateError(one->sequence, DescribeCall(one->call), one->call.timeout, {}));
  }
}

void NcclCommunicator::Fail(const absl::Status& status) {
  if (failed_) return;
  failed_ = true;
  // The control group agrees on one cause for all ranks, and gives it to WhenAborted().
  control_->Abort(status);
}

void NcclCommunicator::End() {
  posting_.reset();
  under_way_.clear();
  failed_ = true;
  if (device_ != nullptr && !NcclDevice::Abort(std::move(device_), options_.abort_wait)) {
    Log(LogLevel::kError, "nccl_abort_hangs",
        {{"group", options_.group.name.name},
         {"generation", options_.group.name.generation},
         {"rank", rank()},
         {"what_to_do", "restart this process: its GPU and its staging memory are not free"}});
  }
  const absl::Status end = calls_->end();
  // A call that waits for an answer of the control group stays. End() runs again after the answer.
  for (const uint64_t sequence : calls_->Endable()) Complete(sequence, end);
}

void NcclCommunicator::Complete(uint64_t sequence, const absl::Status& status) {
  recorder_->Ended(sequence, status, clock_.Now());
  // `done` runs on the executor, because it may take long and this thread serves all calls.
  executor_.Run([done = calls_->TakeOut(sequence), status]() mutable { done(status); });
}

// Runs a call on the control group and waits for its end, or for the end of this communicator.
// `memory` owns the call's memory.
absl::Status NcclCommunicator::AskControl(CollectiveCall call, std::shared_ptr<const void> memory) {
  control_->Start(std::move(call),
                  [calls = calls_, memory = std::move(memory)](const absl::Status& status) {
                    calls->JoinAnswered(status);
                  });
  return calls_->WaitForJoinAnswer().value_or(EndsBeforeJoined());
}

NcclPass NcclCommunicator::OwnPass() {
  NcclPass pass;
  pass.piece_bytes = options_.piece_bytes;
  pass.usable = table_.status();
  if (!pass.usable.ok()) return pass;
  const NcclTable& table = **table_;
  NcclDevice::Options device;
  device.device = options_.device;
  device.rank = rank();
  device.piece_bytes = options_.piece_bytes;
  device.through = [calls = calls_] { calls->PieceThrough(); };
  absl::StatusOr<std::unique_ptr<NcclDevice>> opened = NcclDevice::Open(table, std::move(device));
  pass.usable = opened.status();
  if (!pass.usable.ok()) return pass;
  device_ = *std::move(opened);
  pass.usable = NcclStatus(table, nullptr, table.nccl_version(table.self, &pass.nccl_version),
                           "asking for NCCL's version");
  // Rank 0 alone makes the id by which the communicators of NCCL find each other.
  if (rank() != 0 || !pass.usable.ok()) return pass;
  pass.usable =
      NcclStatus(table, nullptr, table.unique_id(table.self, pass.id.data()), "making an id");
  return pass;
}

absl::Status NcclCommunicator::Join() {
  const auto size = static_cast<size_t>(options_.group.size);
  // Every rank tells all others whether it can use NCCL, even if it cannot.
  const auto memory = std::make_shared<Exchange>();
  memory->own = EncodePass(OwnPass());
  memory->all.resize(size * NcclPass::kBytes);
  const absl::Span<std::byte> all = absl::MakeSpan(memory->all);
  CollectiveCall exchange;
  exchange.op = CollectiveOp::kAllGather;
  exchange.dtype = DType::kUint8;
  exchange.name = "which ranks can use NCCL";
  exchange.counts.assign(size, static_cast<int64_t>(NcclPass::kBytes));
  exchange.timeout = options_.join_timeout;
  exchange.input = memory->own;
  exchange.output = all;
  RETURN_IF_ERROR(AskControl(std::move(exchange), memory));
  std::vector<NcclPass> passes;
  for (size_t rank = 0; rank < size; ++rank) {
    passes.push_back(DecodePass(
        absl::Span<const std::byte>(all).subspan(rank * NcclPass::kBytes, NcclPass::kBytes)));
  }
  RETURN_IF_ERROR(CheckPasses(passes));
  // All ranks have the same messages, so either all of them join NCCL or none does.
  RETURN_IF_ERROR(device_->Join(passes[0].id, options_.group.size));
  RETURN_IF_ERROR(WaitUntilPosted(clock_.Now() + options_.join_timeout));
  // The last barrier tells every rank that all ranks have joined NCCL.
  CollectiveCall all_joined;
  all_joined.name = "all ranks have joined NCCL";
  all_joined.timeout = options_.join_timeout;
  return AskControl(std::move(all_joined), nullptr);
}

}  // namespace cohort
