#include "coordinator/api/load_record.h"

#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/job/job_spec.h"

namespace cohort {
namespace {

constexpr char kSuffix[] = "/.COHORT_LOAD";
constexpr int kFields = 3;  // columns of a load record: first row, number of rows, bytes

}  // namespace

std::map<std::string, Tensor> LoadRecord::Take(const proto::PsStatsResponse& stats,
                                               absl::Span<const proto::VariableLayout> variables) {
  std::map<uint32_t, uint64_t> now;
  for (const proto::SliceTraffic& slice : stats.traffic()) now[slice.slice_id()] = slice.bytes();
  std::map<std::string, Tensor> loads;
  for (const proto::VariableLayout& layout : variables) {
    std::vector<int64_t> fields;
    for (const proto::SliceHome& slice : layout.slices()) {
      const uint64_t before = taken_[slice.slice_id()];
      const uint64_t bytes = now[slice.slice_id()];
      // A byte counter that is smaller than at the last call was reset by a restart of its server,
      // so it counts from 0.
      const uint64_t moved = bytes >= before ? bytes - before : bytes;
      fields.insert(fields.end(),
                    {slice.row_begin(), slice.row_count(), static_cast<int64_t>(moved)});
    }
    if (fields.empty()) continue;
    loads[absl::StrCat(layout.name(), kSuffix)] =
        Tensor::FromVector(fields, Shape{layout.slices_size(), kFields});
  }
  // The present counters are kept, so that the next call returns only the bytes moved after this
  // call.
  taken_ = std::move(now);
  return loads;
}

absl::StatusOr<MeasuredLoads> ReadLoads(FileSystem& files, const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(files, prefix));
  MeasuredLoads loads;
  for (const auto& [name, tensor] : reader->tensors()) {
    if (!absl::EndsWith(name, kSuffix)) continue;
    ASSIGN_OR_RETURN(const Tensor value, reader->Read(name));
    const absl::Status damaged = absl::DataLossError(
        absl::StrCat("checkpoint ", prefix, ": '", name, "' is not a load record"));
    if (value.dtype() != DType::kInt64 || value.shape().rank() != 2 ||
        value.shape().dim(1) != kFields) {
      return damaged;
    }
    std::vector<RowsLoad>& rows = loads[name.substr(0, name.size() - sizeof(kSuffix) + 1)];
    const absl::Span<const int64_t> fields = value.span<int64_t>();
    for (size_t i = 0; i < fields.size(); i += kFields) {
      // A stored range of rows is damaged if its end overflows int64, or if it has a negative
      // begin, no rows, or a negative number of bytes.
      if (fields[i] < 0 || fields[i + 1] < 1 || fields[i + 1] > INT64_MAX - fields[i] ||
          fields[i + 2] < 0) {
        return damaged;
      }
      rows.push_back({{fields[i], fields[i + 1]}, fields[i + 2]});
    }
  }
  return loads;
}

absl::StatusOr<MeasuredLoads> ReadJobLoads(FileSystem& files, const JobSpec& job) {
  const CheckpointSpec& checkpoint = job.checkpoint;
  // Only the placement "measured" of the parameter-server strategy uses load records.
  if (job.strategy.type != kParameterServer) return MeasuredLoads();
  if (job.strategy.placement != "measured" || checkpoint.restore.empty()) return MeasuredLoads();
  ASSIGN_OR_RETURN(const std::string prefix,
                   FindCheckpoint(files, checkpoint.directory, checkpoint.restore));
  return prefix.empty() ? MeasuredLoads() : ReadLoads(files, prefix);
}

}  // namespace cohort
