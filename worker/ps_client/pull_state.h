#pragma once

// The state of one pull: the requests to the variables' homes, and the tensors into which the
// answers are copied.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

// The result of a pull.
struct Pulled {
  std::vector<Tensor> values;  // one value for each variable of the plan
  // Version of each slice that was pulled, in the order of the plan.
  std::vector<uint64_t> versions;
};

// The state of one pull, which has a part for each call of the plan. Several answers may be read
// concurrently, because each part has its own places in the tensors and versions. Take() comes
// after all reads, which the caller must order before it. Otherwise thread-compatible.
class PullState {
 public:
  using Allocate = absl::FunctionRef<Tensor(const VariableType& type, const Shape& shape)>;
  PullState(std::shared_ptr<const TransferPlan> plan, SharedRows rows, Allocate allocate);

  uint32_t ps(size_t part) const { return plan_->by_ps[part].ps; }
  Envelope<proto::PullRequest> Request(size_t part, uint64_t epoch, uint64_t round) const;

  // Copies the answer to call number `part` into the pulled values. Errors: INTERNAL (APPLICATION)
  // naming the home, for an answer that does not match the request.
  absl::Status Read(size_t part, const Envelope<proto::PullResponse>& answer);

  // Returns the pulled values. Called once, after the answers to all calls were read.
  Pulled Take() { return std::move(pulled_); }

 private:
  // The memory into which the received bytes of one slice are copied.
  struct Place {
    // True if the received tensor has the type and shape of the slice.
    bool fits = false;
    uint32_t slice_id = 0;
    size_t ordinal = 0;
    absl::Span<std::byte> bytes;
  };

  // Returns true if the received memory itself becomes the variable's value, because it is a
  // device's memory. Otherwise the received bytes are copied into a tensor of the pool.
  bool IsKept(const VariableType& type) const;
  absl::Status Keep(const SliceTransfer& slice, const proto::TensorMeta& meta, uint32_t ps,
                    PayloadReader& reader);
  RowRun RunOf(const RowSlice& slice) const;
  size_t RowBytes(const PsTransfer& home) const;
  Place PlaceOf(const SliceTransfer& slice, const proto::TensorMeta& meta);
  Place PlaceOf(const RowSlice& slice, const proto::TensorMeta& meta);

  // The plan of the pull; shared with the caller of PsClient::Pull().
  const std::shared_ptr<const TransferPlan> plan_;
  const SharedRows rows_;
  Pulled pulled_;
};

}  // namespace cohort
