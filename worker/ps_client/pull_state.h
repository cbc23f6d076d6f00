#pragma once

// The state of one pull: the requests to each server, and the tensors that the answers are copied
// into.

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

struct Pulled {
  std::vector<Tensor> values;      // indexed by the plan's variables
  std::vector<uint64_t> versions;  // indexed by the plan's slices
};

// The parts of a pull, one per call of the plan. Each writes rows and versions of its own, so parts
// may be read at once; the code that counts them orders them before Take. Otherwise
// thread-compatible.
class PullState {
 public:
  using Allocate = absl::FunctionRef<Tensor(const VariableType& type, const Shape& shape)>;
  PullState(std::shared_ptr<const TransferPlan> plan, SharedRows rows, Allocate allocate);

  uint32_t ps(size_t part) const { return plan_->by_ps[part].ps; }
  Envelope<proto::PullRequest> Request(size_t part, uint64_t epoch, uint64_t round) const;

  // Errors: INTERNAL (APPLICATION) naming the ps, for what is not what was asked for.
  absl::Status Read(size_t part, const Envelope<proto::PullResponse>& answer);

  // Hands over the values when all parts were read.
  Pulled Take() { return std::move(pulled_); }

 private:
  // The place of a slice's bytes, and whether they are what was asked for.
  struct Place {
    bool fits = false;
    uint32_t slice_id = 0;
    size_t ordinal = 0;
    absl::Span<std::byte> bytes;
  };

  // Returns whether the arriving bytes become the value, if they can be kept, instead of a copy in
  // a tensor of ours.
  bool IsKept(const VariableType& type) const;
  absl::Status Keep(const SliceTransfer& slice, const proto::TensorMeta& meta, uint32_t ps,
                    PayloadReader& reader);
  RowRun RunOf(const RowSlice& slice) const;
  size_t RowBytes(const PsTransfer& home) const;
  Place PlaceOf(const SliceTransfer& slice, const proto::TensorMeta& meta);
  Place PlaceOf(const RowSlice& slice, const proto::TensorMeta& meta);

  const std::shared_ptr<const TransferPlan> plan_;  // shared with the client's caller
  const SharedRows rows_;
  Pulled pulled_;
};

}  // namespace cohort
