#pragma once

// Which part of a slice a push changes: all rows, some rows by their ids, or some elements by their
// positions. The gradients are sent in float32 or in 16 bits. A push is checked completely before
// any slice is changed.

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
  std::vector<int64_t> ids;  // row numbers in the whole variable, or keys; unused if `all`
  bool has_positions = false;
  std::vector<int32_t> positions;   // positions of elements in the slice, ascending
  DType dtype = DType::kUndefined;  // the type in which the gradient was sent

  // Returns the number of bytes of the ids or positions, which precede the gradient in the payload.
  size_t index_bytes() const {
    return ids.size() * sizeof(int64_t) + positions.size() * sizeof(int32_t);
  }
};

// Checks a push, and returns for each of its slices which part the push changes. `shards` are the
// push's slices, in the same order. Errors: INVALID_ARGUMENT that names a slice that occurs twice,
// a tensor that does not fit its slice, an id or position outside its slice, a payload of the wrong
// size, a learning rate that is not finite, or a missing step number that an optimizer needs.
absl::StatusOr<std::vector<PushedRows>> CheckPush(const Envelope<proto::PushRequest>& request,
                                                  absl::Span<VariableSlice* const> shards);

}  // namespace cohort
