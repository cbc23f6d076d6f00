#pragma once

// One pull under way: what to ask each server, and the tensors that the answers are copied into.

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
  std::vector<Tensor> values;      // by the plan's variables
  std::vector<uint64_t> versions;  // by the plan's slices
};

// Each part, one call of the plan, writes rows and versions of its own, so parts may be read at
// once; who counts them orders them before Take. Otherwise: Thread-compatible.
class PullState {
 public:
  using Allocate = absl::FunctionRef<Tensor(const VariableType& type, const Shape& shape)>;
  PullState(std::shared_ptr<const TransferPlan> plan, SharedRows rows, Allocate allocate);

  uint32_t ps(size_t part) const { return plan_->by_ps[part].ps; }
  Envelope<proto::PullRequest> Request(size_t part, uint64_t epoch, uint64_t round) const;

  // Errors: INTERNAL (APPLICATION) naming the ps, for what is not what was asked for.
  absl::Status Read(size_t part, const Envelope<proto::PullResponse>& answer);

  // When all parts were read.
  Pulled Take() { return std::move(pulled_); }

 private:
  // Where the bytes of a slice belong, and whether they are what was asked for.
  struct Place {
    bool fits = false;
    uint32_t slice_id = 0;
    size_t ordinal = 0;
    absl::Span<std::byte> bytes;
  };

  // Whether its value is what comes, where that can be kept, and not a copy in a tensor of ours.
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
