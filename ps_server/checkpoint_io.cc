#include "ps_server/checkpoint_io.h"

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/nearest_names.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"

namespace cohort {

namespace {

constexpr size_t kNearestNamesMax = 3;

// Finds a tensor of the layout's shape.
absl::Status CheckTensor(const BundleReader& reader, const RestoreSource& source,
                         const std::string& name, BundleTensor expected) {
  const auto found = reader.tensors().find(name);
  if (found == reader.tensors().end()) {
    std::vector<std::string> names;
    for (const auto& [held, tensor] : reader.tensors()) names.push_back(held);
    const std::vector<std::string> close = NearestNames(name, names, kNearestNamesMax);
    return absl::NotFoundError(absl::StrCat(
        "checkpoint ", source.prefix, " has no tensor '", name, "'; of its ", names.size(),
        " tensors the nearest are: ", close.empty() ? "none" : absl::StrJoin(close, ", ")));
  }
  if (found->second.dtype != expected.dtype || found->second.shape != expected.shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint ", source.prefix, " has '", name, "' as ", DTypeName(found->second.dtype),
        found->second.shape.ToString(), ", the job's is ", DTypeName(expected.dtype),
        expected.shape.ToString(), "; is it a checkpoint of another model?"));
  }
  return absl::OkStatus();
}

// Where the history of a slice has what.
enum HistoryField { kRows, kVersion, kWatermark, kIntervals };

Tensor EncodeHistory(const SliceLayout& layout, const VariableShard::History& history) {
  std::vector<int64_t> fields(kIntervals);
  fields[kRows] = layout.rows.count;
  fields[kVersion] = static_cast<int64_t>(history.version);
  fields[kWatermark] = static_cast<int64_t>(history.applied.watermark());
  for (const AppliedSet::Interval& interval : history.applied.intervals()) {
    fields.push_back(static_cast<int64_t>(interval.first));
    fields.push_back(static_cast<int64_t>(interval.last));
  }
  return Tensor::FromVector(fields, Shape{static_cast<int64_t>(fields.size())});
}

absl::StatusOr<VariableShard::History> DecodeHistory(absl::Span<const int64_t> fields) {
  VariableShard::History history;
  history.version = static_cast<uint64_t>(fields[kVersion]);
  std::vector<AppliedSet::Interval> intervals;
  for (size_t i = kIntervals; i < fields.size(); i += 2) {
    intervals.push_back({static_cast<uint64_t>(fields[i]), static_cast<uint64_t>(fields[i + 1])});
  }
  ASSIGN_OR_RETURN(
      history.applied,
      AppliedSet::FromIntervals(static_cast<uint64_t>(fields[kWatermark]), std::move(intervals)));
  return history;
}

absl::StatusOr<VariableShard::History> LoadHistory(const BundleReader& reader,
                                                   const RestoreSource& source,
                                                   const SliceLayout& layout) {
  const std::string name = HistoryTensorName(layout);
  const auto found = reader.tensors().find(name);
  Tensor fields;
  if (found != reader.tensors().end() && found->second.dtype == DType::kInt64 &&
      found->second.shape.rank() == 1) {
    ASSIGN_OR_RETURN(fields, reader.Read(name));
  }
  if (fields.num_bytes() == 0 || fields.data<int64_t>()[kRows] != layout.rows.count) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", source.prefix,
                     " was made with other slices: it does not say which closures "
                     "are in rows ",
                     layout.rows.begin, " to ", layout.rows.begin + layout.rows.count - 1, " of ",
                     layout.variable, "; it can only be restored as an ordinary checkpoint"));
  }
  const std::string context = absl::StrCat("checkpoint ", source.prefix, ", '", name, "'");
  if (fields.num_elements() < kIntervals || (fields.num_elements() - kIntervals) % 2 != 0) {
    return absl::DataLossError(absl::StrCat(context, " has ", fields.num_elements(), " numbers"));
  }
  absl::StatusOr<VariableShard::History> history = DecodeHistory(fields.span<int64_t>());
  if (!history.ok()) return Annotate(history.status(), context);
  return history;
}

absl::StatusOr<VariableShard::State> Load(const BundleReader& reader, const RestoreSource& source,
                                          const SliceLayout& layout) {
  VariableShard::State state;
  ASSIGN_OR_RETURN(state.value, reader.ReadRows(layout.variable, layout.rows));
  if (source.applied) {
    ASSIGN_OR_RETURN(state.history, LoadHistory(reader, source, layout));
  }
  if (!source.slots && !source.applied) return state;
  for (const SlotSpec& slot : layout.rule_spec.slots) {
    ASSIGN_OR_RETURN(Tensor value, reader.ReadRows(SlotTensorName(layout, slot.name), layout.rows));
    state.slots.push_back(std::move(value));
  }
  return state;
}

// The logical tensors that a restore of these shards reads.
std::map<std::string, BundleTensor> TensorsOf(absl::Span<VariableShard* const> shards, bool slots) {
  std::map<std::string, BundleTensor> tensors;
  for (const VariableShard* shard : shards) {
    const SliceLayout& layout = shard->layout();
    tensors[layout.variable] = {layout.dtype, layout.full_shape};
    for (const SlotSpec& slot : layout.rule_spec.slots) {
      if (slots) tensors[SlotTensorName(layout, slot.name)] = {DType::kFloat32, layout.full_shape};
    }
  }
  return tensors;
}

}  // namespace

std::string SlotTensorName(const SliceLayout& layout, const std::string& slot) {
  return absl::StrCat(layout.variable, "/.OPTIMIZER_SLOT/", layout.rule.op(), "/", slot);
}

std::string HistoryTensorName(const SliceLayout& layout) {
  return absl::StrCat(layout.variable, "/.COHORT_APPLIED/", layout.rows.begin);
}

absl::StatusOr<std::vector<ExtraTensor>> ExtrasOf(const proto::SaveShardRequest& request) {
  std::vector<ExtraTensor> extras;
  for (const proto::NamedTensor& named : request.extras()) {
    proto::TensorMeta meta;
    meta.set_dtype(named.tensor().dtype());
    *meta.mutable_dims() = named.tensor().dims();
    const std::string context = absl::StrCat("SaveShardRequest.extras '", named.name(), "'");
    const absl::StatusOr<size_t> bytes = BytesOf(meta);
    if (!bytes.ok()) return Annotate(bytes.status(), context);
    const std::string& data = named.tensor().data();
    if (named.name().empty() || data.size() != *bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(context, " needs a name and ", *bytes, " bytes; it has ", data.size()));
    }
    ASSIGN_OR_RETURN(Tensor value, AllocateFor(meta));
    std::memcpy(value.mutable_raw(), data.data(), data.size());
    extras.push_back({named.name(), std::move(value)});
  }
  return extras;
}

namespace {

absl::Status AddWhole(DataShardWriter& writer, const std::string& name, const Tensor& value) {
  const Shape& shape = value.shape();
  return writer.Add(name, shape, {0, shape.rank() == 0 ? 1 : shape.dim(0)}, value);
}

absl::Status AddSnapshot(DataShardWriter& writer, const SliceLayout& layout,
                         const VariableShard::Snapshot& snapshot) {
  RETURN_IF_ERROR(writer.Add(layout.variable, layout.full_shape, layout.rows, snapshot.value));
  for (size_t i = 0; i < snapshot.slots.size(); ++i) {
    const std::string name = SlotTensorName(layout, layout.rule_spec.slots[i].name);
    RETURN_IF_ERROR(writer.Add(name, layout.full_shape, layout.rows, snapshot.slots[i]));
  }
  return AddWhole(writer, HistoryTensorName(layout), EncodeHistory(layout, snapshot.history));
}

}  // namespace

absl::StatusOr<std::vector<proto::SavedSlice>> SaveShards(FileSystem& files,
                                                          const ShardTarget& target,
                                                          absl::Span<VariableShard* const> shards,
                                                          absl::Span<const ExtraTensor> extras,
                                                          VariableShard::AskGate gate) {
  std::vector<VariableShard::Snapshot> snapshots;
  for (VariableShard* shard : shards) {
    ASSIGN_OR_RETURN(VariableShard::Snapshot snapshot, shard->TakeSnapshot(gate));
    snapshots.push_back(std::move(snapshot));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DataShardWriter> writer,
                   DataShardWriter::Create(files, target.prefix, target.shard, target.num_shards));
  for (size_t i = 0; i < shards.size(); ++i) {
    const VariableShard::Snapshot snapshot = std::move(snapshots[i]);  // released when written
    RETURN_IF_ERROR(AddSnapshot(*writer, shards[i]->layout(), snapshot));
  }
  for (const ExtraTensor& extra : extras) {
    RETURN_IF_ERROR(AddWhole(*writer, extra.name, extra.value));
  }
  return writer->Finish();
}

absl::StatusOr<LoadedShards> LoadShards(FileSystem& files, const RestoreSource& source,
                                        absl::Span<VariableShard* const> shards) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                   BundleReader::Open(files, source.prefix));
  const auto tensors = TensorsOf(shards, source.slots || source.applied);
  for (const auto& [name, tensor] : tensors) {
    RETURN_IF_ERROR(CheckTensor(*reader, source, name, tensor));
  }
  LoadedShards loaded;
  loaded.tensors = static_cast<uint32_t>(tensors.size());
  for (const VariableShard* shard : shards) {
    ASSIGN_OR_RETURN(VariableShard::State state, Load(*reader, source, shard->layout()));
    loaded.states.push_back(std::move(state));
  }
  return loaded;
}

absl::StatusOr<LoadedShards> InitialShards(absl::Span<VariableShard* const> shards) {
  LoadedShards loaded;
  loaded.tensors = static_cast<uint32_t>(TensorsOf(shards, /*slots=*/true).size());
  for (const VariableShard* shard : shards) {
    ASSIGN_OR_RETURN(VariableShard::State state, VariableShard::InitialState(shard->layout()));
    loaded.states.push_back(std::move(state));
  }
  return loaded;
}

}  // namespace cohort
