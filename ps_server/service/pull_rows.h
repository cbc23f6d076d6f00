#pragma once

// The rows that a pull asks for of slices that it does not want whole.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

// Returns the ids of each of `request.rows`, whose slices are `shards`, checked. Errors:
// INVALID_ARGUMENT naming the slice and the id outside it, or a payload that does not have all ids.
absl::StatusOr<std::vector<std::vector<int64_t>>> ReadRowIds(
    const Envelope<proto::PullRequest>& request, absl::Span<VariableSlice* const> shards);

// Returns the type in which the values of a slice travel if `asked` is wanted
// (PullRequest.value_dtype).
DType TravelDType(const SliceLayout& layout, DType asked);

// Adds the rows, as the round reads them, to the answer, all in one piece of memory, in their
// TravelDType. Returns the number of bytes.
struct RowsRead {
  RoundRead round;
  DType asked = DType::kUndefined;  // PullRequest.value_dtype
};
size_t AnswerRows(absl::Span<const std::vector<int64_t>> ids,
                  absl::Span<VariableSlice* const> shards, const RowsRead& read,
                  Envelope<proto::PullResponse>& response);

}  // namespace cohort
