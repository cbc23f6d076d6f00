#pragma once

// Pulls of some rows: reading the requested row ids, and answering with the rows.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "ps_server/slice/variable_slice.h"

namespace cohort {

// Returns the row ids of each element of `request.rows`; `shards` are the slices of these elements.
// Errors: INVALID_ARGUMENT that names the slice and an id outside the slice, or that says that the
// payload does not have all ids.
absl::StatusOr<std::vector<std::vector<int64_t>>> ReadRowIds(
    const Envelope<proto::PullRequest>& request, absl::Span<VariableSlice* const> shards);

// Returns the type in which the values of a slice are sent if the pull asks for `asked`
// (PullRequest.value_dtype).
DType TravelDType(const SliceLayout& layout, DType asked);

// The round for which rows are read, and the type that the pull asks for.
struct RowsRead {
  RoundRead round;
  DType asked = DType::kUndefined;  // the type that PullRequest.value_dtype names
};
// Adds the rows, as the round reads them, to the response, in one piece of memory and in each
// slice's TravelDType. Returns the number of bytes that the rows take.
size_t AnswerRows(absl::Span<const std::vector<int64_t>> ids,
                  absl::Span<VariableSlice* const> shards, const RowsRead& read,
                  Envelope<proto::PullResponse>& response);

}  // namespace cohort
