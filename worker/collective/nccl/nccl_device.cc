#include "worker/collective/nccl/nccl_device.h"

#include <pthread.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "common/base/status.h"
#include "worker/collective/nccl/nccl_library.h"

namespace cohort {

namespace {

// The interval of polls. NCCL tells the state of a communicator only when asked, and wakes no
// thread.
constexpr absl::Duration kAskAgainAfter = absl::Milliseconds(1);
// The largest number of polls of a communicator that is leaving NCCL. A lost rank may keep it from
// leaving for longer.
constexpr int kAsksOfLeaveMax = 2000;

void Pause() {
  const Event never;
  never.WaitFor(kAskAgainAfter);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclDevice>> NcclDevice::Open(const NcclTable& table,
                                                             Options options) {
  RETURN_IF_ERROR(CheckNcclDevice(table, options.device));
  NcclContext* context = nullptr;
  const int32_t code = table.open(table.self, options.device, &context);
  RETURN_IF_ERROR(NcclStatus(table, nullptr, code, absl::StrCat("opening gpu:", options.device)));
  std::unique_ptr<NcclDevice> device(new NcclDevice(table, context, std::move(options)));
  RETURN_IF_ERROR(device->Allocate());
  return device;
}

NcclDevice::NcclDevice(const NcclTable& table, NcclContext* context, Options options)
    : table_(table), context_(context), options_(std::move(options)) {}

NcclDevice::~NcclDevice() {
  if (joined_) Leave();
  for (const Slot& slot : slots_) {
    if (slot.host_in != nullptr) table_.free_host(context_, slot.host_in);
    if (slot.host_out != nullptr) table_.free_host(context_, slot.host_out);
    if (slot.device_in != nullptr) table_.free_device(context_, slot.device_in);
    if (slot.device_out != nullptr) table_.free_device(context_, slot.device_out);
  }
  table_.close(context_);
}

absl::Status NcclDevice::Allocate() {
  for (Slot& slot : slots_) {
    for (std::byte** const memory :
         {&slot.host_in, &slot.host_out, &slot.device_in, &slot.device_out}) {
      const bool host = memory == &slot.host_in || memory == &slot.host_out;
      void* made = nullptr;
      const int32_t code = (host ? table_.allocate_host : table_.allocate_device)(
          context_, options_.piece_bytes, &made);
      RETURN_IF_ERROR(Status(code, absl::StrCat("allocating ", options_.piece_bytes, " bytes of ",
                                                host ? "pinned" : "device", " memory")));
      *memory = static_cast<std::byte*>(made);
    }
  }
  return absl::OkStatus();
}

absl::Status NcclDevice::Status(int32_t code, absl::string_view doing) const {
  return NcclStatus(table_, context_, code,
                    absl::StrCat("rank ", options_.rank, ", gpu:", options_.device, ": ", doing));
}

absl::Status NcclDevice::Join(const std::array<uint8_t, kNcclIdBytes>& id, int size) {
  const int32_t code = table_.join(context_, id.data(), options_.rank, size);
  // A communicator of NCCL that failed to join must be aborted as well, so joined_ is true in any
  // case.
  joined_ = true;
  return Status(code, "joining the group");
}

absl::StatusOr<bool> NcclDevice::HasPosted() {
  const int32_t code = table_.comm_state(context_);
  RETURN_IF_ERROR(Status(code, "the group of GPUs"));
  return code == kNcclDone;
}

int32_t NcclDevice::PostStep(const Slot& slot, const NcclStep& step, const NcclElements& elements) {
  const size_t element = elements.bytes();
  const std::byte* const from = slot.device_in + static_cast<size_t>(step.send_first) * element;
  std::byte* const to = slot.device_out + static_cast<size_t>(step.receive_first) * element;
  const NcclRun run = elements.RunOf(step.count);
  const NcclReduction reduction = elements.reduction();
  switch (step.kind) {
    case NcclStep::Kind::kAllReduce:
      return table_.all_reduce(context_, from, to, run, reduction);
    case NcclStep::Kind::kReduce:
      // Only the destination rank of a reduce has memory for the result.
      return table_.reduce(context_, from, step.peer == options_.rank ? to : nullptr, run,
                           reduction, step.peer);
    case NcclStep::Kind::kBroadcast:
      // Only the sending rank of a broadcast has input.
      return table_.broadcast(context_, step.peer == options_.rank ? from : nullptr, to, run,
                              step.peer);
    case NcclStep::Kind::kAllGather:
      return table_.all_gather(context_, from, to, run);
    case NcclStep::Kind::kReduceScatter:
      return table_.reduce_scatter(context_, from, to, run, reduction);
    case NcclStep::Kind::kSend:
      return table_.send(context_, from, run, step.peer);
    case NcclStep::Kind::kReceive:
      return table_.receive(context_, to, run, step.peer);
  }
  return kNcclDone;
}

absl::Status NcclDevice::Post(size_t slot, const NcclPiece& piece, const NcclElements& elements) {
  const Slot& memory = slots_[slot];
  const size_t bytes = static_cast<size_t>(piece.staged_in) * elements.bytes();
  if (!piece.in.empty()) {
    RETURN_IF_ERROR(Status(table_.copy_to_device(context_, memory.device_in, memory.host_in, bytes),
                           "starting a copy to the device"));
  }
  RETURN_IF_ERROR(Status(table_.group_start(context_), "starting a group of operations"));
  absl::Status posted;
  for (const NcclStep& step : piece.steps) {
    if (posted.ok()) posted = Status(PostStep(memory, step, elements), "starting an operation");
  }
  // A started group of operations must be ended, even if one of the operations has failed.
  posted.Update(Status(table_.group_end(context_), "starting operations"));
  return posted;
}

absl::Status NcclDevice::Finish(size_t slot, const NcclPiece& piece, const NcclElements& elements) {
  const Slot& memory = slots_[slot];
  const size_t bytes = static_cast<size_t>(piece.staged_out) * elements.bytes();
  if (!piece.out.empty()) {
    RETURN_IF_ERROR(Status(table_.copy_to_host(context_, memory.host_out, memory.device_out, bytes),
                           "starting a copy from the device"));
  }
  // The callback may read options_, because Leave() and Abort() wait for the stream before options_
  // is destroyed.
  const auto through = [](void* options) { static_cast<const Options*>(options)->through(); };
  return Status(table_.call_then(context_, through, const_cast<Options*>(&options_)),
                "waiting for the device");
}

absl::Status NcclDevice::Check() {
  RETURN_IF_ERROR(Status(table_.comm_state(context_), "the group of GPUs"));
  return Status(table_.stream_state(context_), "what runs on the device");
}

// Ends the GPU's work on a new thread, which owns `device` from now on, because NCCL's abort and
// calls that wait for the GPU have been seen to hang (nccl#1013). A thread that hangs is left
// behind; no other thread is never joined.
bool NcclDevice::Abort(std::unique_ptr<NcclDevice> device, absl::Duration wait) {
  // Notified when the abort has ended; shared with the thread that aborts.
  const auto ended = std::make_shared<Event>();
  std::thread ending([device = std::move(device), ended]() mutable {
    device->table_.abort(device->context_);
    device->table_.stream_wait(device->context_);
    device->joined_ = false;
    device.reset();
    ended->Notify();
  });
  pthread_setname_np(ending.native_handle(), "nccl-abort");
  if (!ended->WaitFor(wait)) {
    ending.detach();
    return false;
  }
  ending.join();
  return true;
}

void NcclDevice::Leave() {
  // The GPU has finished all pieces, but CUDA's thread may still run the callback of the last one.
  int32_t code = table_.stream_wait(context_);
  if (code == kNcclDone) code = table_.leave(context_);
  for (int asked = 0; code == kNcclUnderWay && asked < kAsksOfLeaveMax; ++asked) {
    code = table_.comm_state(context_);
    if (code == kNcclUnderWay) Pause();
  }
  // A communicator that does not leave NCCL in time is aborted.
  if (code == kNcclDone) {
    table_.destroy(context_);
  } else {
    table_.abort(context_);
  }
}

}  // namespace cohort
