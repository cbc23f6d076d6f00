#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "worker/collective/nccl/nccl_communicator.h"
#include "worker/collective/nccl/nccl_library.h"

namespace cohort {

namespace {

// The answer of the control group to one call.
struct Answer {
  Event came;
  absl::Status status;
};

}  // namespace

// Runs a call of the control group and waits for its answer. The control group always answers: at
// the latest when the end of the communicator aborts the control group.
absl::Status NcclCommunicator::AskControl(CollectiveCall call) {
  const auto answer = std::make_shared<Answer>();  // shared with the callback of the call
  control_->Start(std::move(call), [answer](absl::Status status) {
    answer->status = std::move(status);
    answer->came.Notify();
  });
  answer->came.WaitFor(absl::InfiniteDuration());
  return answer->status;
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
  // Rank 0 alone makes the id by which NCCL's communicators find each other.
  if (rank() != 0 || !pass.usable.ok()) return pass;
  pass.usable =
      NcclStatus(table, nullptr, table.unique_id(table.self, pass.id.data()), "making an id");
  return pass;
}

absl::Status NcclCommunicator::Join() {
  const auto size = static_cast<size_t>(options_.group.size);
  // Every rank tells all ranks whether it can join, even if it cannot.
  const auto own = EncodePass(OwnPass());
  std::vector<std::byte> all(size * NcclPass::kBytes);
  CollectiveCall exchange;
  exchange.op = CollectiveOp::kAllGather;
  exchange.dtype = DType::kUint8;
  exchange.name = "which ranks can use NCCL";
  exchange.counts.assign(size, static_cast<int64_t>(NcclPass::kBytes));
  exchange.timeout = options_.join_timeout;
  exchange.input = own;
  exchange.output = absl::MakeSpan(all);
  RETURN_IF_ERROR(AskControl(std::move(exchange)));
  std::vector<NcclPass> passes;
  for (size_t rank = 0; rank < size; ++rank) {
    passes.push_back(
        DecodePass(absl::MakeConstSpan(all).subspan(rank * NcclPass::kBytes, NcclPass::kBytes)));
  }
  RETURN_IF_ERROR(CheckPasses(passes));
  // All ranks have the same passes, so either all of them join or none does.
  RETURN_IF_ERROR(device_->Join(passes[0].id, options_.group.size));
  RETURN_IF_ERROR(WaitUntilPosted(clock_.Now() + options_.join_timeout));
  // A last barrier tells that all ranks have joined.
  CollectiveCall all_joined;
  all_joined.name = "all ranks have joined NCCL";
  all_joined.timeout = options_.join_timeout;
  return AskControl(std::move(all_joined));
}

}  // namespace cohort
