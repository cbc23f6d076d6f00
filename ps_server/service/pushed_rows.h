#pragma once

// The part of a slice that a push changes: all rows, some rows given by their ids, or some elements
// given by their positions. The gradients are sent in float32 or in 16 bits. A push is checked
// completely before any slice is changed.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

struct PushedRows {
  bool all = true;
  // Row numbers in the whole variable, or keys of a dynamic table; unused if `all` is true.
  std::vector<int64_t> ids;
  bool has_positions = false;
  // Ascending positions, within the slice, of the elements that were sent.
  std::vector<int32_t> positions;
  DType dtype = DType::kUndefined;  // type in which the gradient was sent

  // Returns the size in bytes of the ids or positions, which stand before the gradient in the
  // payload.
  size_t index_bytes() const {
    return ids.size() * sizeof(int64_t) + positions.size() * sizeof(int32_t);
  }
};

// Checks a push, and returns for each of its slices which part of the slice the push changes.
// `shards` are the push's slices, in the same order. Errors: INVALID_ARGUMENT, naming the slice,
// for a slice that occurs twice, a tensor whose type or shape does not suit its slice, an id or
// position outside its slice, or pushes that a round could not join; INVALID_ARGUMENT for a payload
// of the wrong size, a learning rate that is not finite, or no step number although an optimizer
// needs one.
absl::StatusOr<std::vector<PushedRows>> CheckPush(const Envelope<proto::PushRequest>& request,
                                                  absl::Span<VariableSlice* const> shards);

}  // namespace cohort
