#pragma once

// The part of a slice that a push changes: all rows, some of them by their ids, or some elements by
// their positions; in full precision or in 16 bits. All of it is checked before anything is
// changed.

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
  std::vector<int64_t> ids;  // ids in the whole variable, unless all
  bool has_positions = false;
  std::vector<int32_t> positions;   // positions in the slice, ascending
  DType dtype = DType::kUndefined;  // type in which values travel

  // Returns the number of bytes before the values.
  size_t index_bytes() const {
    return ids.size() * sizeof(int64_t) + positions.size() * sizeof(int32_t);
  }
};

// Reads the rows of each of the push's slices, which are `shards`. Errors: INVALID_ARGUMENT naming
// a slice that occurs twice, a tensor that does not fit its slice, an id or position outside it, a
// payload of another size, a learning rate that is not finite, or a step that an optimizer needs.
absl::StatusOr<std::vector<PushedRows>> CheckPush(const Envelope<proto::PushRequest>& request,
                                                  absl::Span<VariableSlice* const> shards);

}  // namespace cohort
