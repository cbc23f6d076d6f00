#pragma once

// What a push has of each slice: all rows, some of them by their ids, or some elements by their
// positions; as they are or in 16 bits. All of it is checked before anything is changed.

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
  std::vector<int64_t> ids;  // of the whole variable, else
  bool has_positions = false;
  std::vector<int32_t> positions;   // in the slice, ascending
  DType dtype = DType::kUndefined;  // of what travels

  // The bytes before the values.
  size_t index_bytes() const {
    return ids.size() * sizeof(int64_t) + positions.size() * sizeof(int32_t);
  }
};

// For each of the push's slices, which are `shards`. Errors: INVALID_ARGUMENT naming a slice that
// is there twice, a tensor that does not fit its slice, an id or position that is not of it, the
// payload that has not just their bytes, a learning rate that is no number, or a step that an
// optimizer needs.
absl::StatusOr<std::vector<PushedRows>> CheckPush(const Envelope<proto::PushRequest>& request,
                                                  absl::Span<VariableSlice* const> shards);

}  // namespace cohort
