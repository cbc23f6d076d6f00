#include "ps_server/checkpoint/slice_history.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// The positions of the fields in a slice's history tensor; intervals of closures follow in pairs.
enum HistoryField { kRows, kVersion, kWatermark, kUpdate, kRound, kIntervals };

absl::StatusOr<SliceHistory> DecodeHistory(absl::Span<const int64_t> fields) {
  SliceHistory history;
  history.version = static_cast<uint64_t>(fields[kVersion]);
  history.update = static_cast<uint64_t>(fields[kUpdate]);
  history.round = static_cast<uint64_t>(fields[kRound]);
  std::vector<AppliedSet::Interval> intervals;
  for (size_t i = kIntervals; i < fields.size(); i += 2) {
    intervals.push_back({static_cast<uint64_t>(fields[i]), static_cast<uint64_t>(fields[i + 1])});
  }
  ASSIGN_OR_RETURN(
      history.applied,
      AppliedSet::FromIntervals(static_cast<uint64_t>(fields[kWatermark]), std::move(intervals)));
  return history;
}

// The error for a checkpoint that has no history for this slice, and so is not a cut for it.
absl::Status OtherSlices(const RestoreSource& source, const SliceLayout& layout) {
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoint ", source.prefix,
                   " was made with other slices: it does not say which closures "
                   "are in rows ",
                   layout.rows.begin, " to ", layout.rows.begin + layout.rows.count - 1, " of ",
                   layout.variable, "; it can only be restored as an ordinary checkpoint"));
}

}  // namespace

std::string HistoryTensorName(const SliceLayout& layout) {
  return absl::StrCat(layout.variable, "/.COHORT_APPLIED/", layout.rows.begin);
}

Tensor EncodeHistory(const SliceLayout& layout, const SliceHistory& history) {
  std::vector<int64_t> fields(kIntervals);
  fields[kRows] = layout.rows.count;
  fields[kVersion] = static_cast<int64_t>(history.version);
  fields[kUpdate] = static_cast<int64_t>(history.update);
  fields[kRound] = static_cast<int64_t>(history.round);
  fields[kWatermark] = static_cast<int64_t>(history.applied.watermark());
  for (const AppliedSet::Interval& interval : history.applied.intervals()) {
    fields.push_back(static_cast<int64_t>(interval.first));
    fields.push_back(static_cast<int64_t>(interval.last));
  }
  return Tensor::FromVector(fields, Shape{static_cast<int64_t>(fields.size())});
}

absl::StatusOr<WantedRows> WantedHistory(const BundleTensors& tensors, const RestoreSource& source,
                                         const SliceLayout& layout) {
  const std::string name = HistoryTensorName(layout);
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.dtype != DType::kInt64 ||
      found->second.shape.rank() != 1 || found->second.shape.num_elements() == 0) {
    return OtherSlices(source, layout);
  }
  const int64_t fields = found->second.shape.num_elements();
  // The number of fields is checked before memory is allocated, since the checkpoint may be
  // damaged.
  constexpr int64_t kFieldsMax = int64_t{kIntervals} + 2 * int64_t{kAppliedIntervalsMax};
  if (fields < kIntervals || (fields - kIntervals) % 2 != 0 || fields > kFieldsMax) {
    return absl::DataLossError(
        absl::StrCat("checkpoint ", source.prefix, ", '", name, "' has ", fields, " numbers"));
  }
  return WantedRows{name, DType::kInt64, found->second.shape, {0, fields}};
}

absl::StatusOr<SliceHistory> ReadHistory(const Tensor& fields, const RestoreSource& source,
                                         const SliceLayout& layout) {
  // The name of the history tensor has only the first row, so the number of rows is compared here.
  if (fields.data<int64_t>()[kRows] != layout.rows.count) return OtherSlices(source, layout);
  absl::StatusOr<SliceHistory> history = DecodeHistory(fields.span<int64_t>());
  if (history.ok()) return history;
  return Annotate(history.status(), absl::StrCat("checkpoint ", source.prefix, ", '",
                                                 HistoryTensorName(layout), "'"));
}

}  // namespace cohort
