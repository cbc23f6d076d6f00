#include "ps_server/checkpoint/checkpoint_io.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/nearest_names.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/program/aggregation.h"
#include "ps_server/checkpoint/table_parts.h"

namespace cohort {

namespace {

constexpr size_t kNearestNamesMax = 3;

// The positions of the fields in a slice's history tensor (int64). The fields are followed by the
// first and the last closure id of each interval of applied closures.
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

// Returns the error for a checkpoint without a saved slice that has all rows of this slice, which
// so cannot be restored as part of a cut.
absl::Status OtherSlices(const RestoreSource& source, const SliceLayout& layout) {
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoint ", source.prefix,
      " was made with other slices: it does not say which closures "
      "are in rows ",
      layout.rows.begin, " to ", layout.rows.begin + layout.rows.count - 1, " of ", layout.variable,
      ", which it has no slice with; it can only be restored as an ordinary "
      "checkpoint"));
}

std::string HistoryTensorName(const std::string& variable, int64_t first_row) {
  return absl::StrCat(variable, kAppliedInfix, first_row);
}

// Returns the first row of the saved slice in which the first row of `layout` lies. Returns the
// first row of `layout` itself if there is no such slice.
int64_t SavedSliceOf(const BundleTensors& tensors, const SliceLayout& layout) {
  const int64_t begin = layout.rows.begin;
  // Nearly every cut has the slices that it is restored to, so the others are not looked at.
  if (tensors.count(HistoryTensorName(layout.variable, begin)) > 0) return begin;
  const std::string prefix = absl::StrCat(layout.variable, kAppliedInfix);
  std::optional<int64_t> saved;
  for (auto it = tensors.lower_bound(prefix);
       it != tensors.end() && absl::StartsWith(it->first, prefix); ++it) {
    int64_t row = 0;
    if (!absl::SimpleAtoi(absl::StripPrefix(it->first, prefix), &row) || row > begin) continue;
    saved = std::max(saved.value_or(row), row);
  }
  return saved.value_or(begin);
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

// Returns the request for the tensor with the history of the saved slice in which the slice's first
// row lies, in a checkpoint that has `tensors`.
// Errors: FAILED_PRECONDITION if the checkpoint was made with other slices; DATA_LOSS.
absl::StatusOr<WantedRows> WantedHistory(const BundleTensors& tensors, const RestoreSource& source,
                                         const SliceLayout& layout) {
  const std::string name = HistoryTensorName(layout.variable, SavedSliceOf(tensors, layout));
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.dtype != DType::kInt64 ||
      found->second.shape.rank() != 1 || found->second.shape.num_elements() == 0) {
    return OtherSlices(source, layout);
  }
  const int64_t fields = found->second.shape.num_elements();
  // The number of fields is checked before memory for them is allocated, since the checkpoint may
  // be damaged.
  constexpr int64_t kFieldsMax = int64_t{kIntervals} + 2 * int64_t{kAppliedIntervalsMax};
  if (fields < kIntervals || (fields - kIntervals) % 2 != 0 || fields > kFieldsMax) {
    return absl::DataLossError(
        absl::StrCat("checkpoint ", source.prefix, ", '", name, "' has ", fields, " numbers"));
  }
  return WantedRows{name, DType::kInt64, found->second.shape, {0, fields}};
}

// Decodes a slice's history from `fields`, the content of the tensor `name` that WantedHistory
// returned. Errors: those of WantedHistory.
absl::StatusOr<SliceHistory> ReadHistory(const std::string& name, const Tensor& fields,
                                         const RestoreSource& source, const SliceLayout& layout) {
  int64_t first_row = 0;
  const std::string prefix = absl::StrCat(layout.variable, kAppliedInfix);
  COHORT_CHECK(absl::SimpleAtoi(absl::StripPrefix(name, prefix), &first_row),
               "a planned name of a history ends with a row number");
  // The name of the history tensor has only the first row, so the saved slice's end is compared
  // here. The differences cannot overflow, because neither row is negative.
  const int64_t before = layout.rows.begin - first_row;
  if (first_row < 0 || before < 0 || fields.data<int64_t>()[kRows] - before < layout.rows.count) {
    return OtherSlices(source, layout);
  }
  absl::StatusOr<SliceHistory> history = DecodeHistory(fields.span<int64_t>());
  if (history.ok()) return history;
  return Annotate(history.status(), absl::StrCat("checkpoint ", source.prefix, ", '", name, "'"));
}

// Checks that the checkpoint has a tensor `name` with the type and shape of `expected`. Errors:
// NOT_FOUND with the nearest names; INVALID_ARGUMENT.
absl::Status CheckTensor(const BundleTensors& tensors, const RestoreSource& source,
                         const std::string& name, BundleTensor expected) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    std::vector<std::string> names;
    for (const auto& [held, tensor] : tensors) names.push_back(held);
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

// Returns whether a restore gives every replica the one aggregated value of the variable. The
// restore of a cut, or of a variable without an aggregation, instead gives each replica its own
// saved value.
bool TakesOneValue(const RestoreSource& source, const SliceLayout& layout) {
  return layout.replicas > 0 && !source.applied && layout.aggregation != proto::AGGREGATION_NONE;
}

// Returns the name and the rows of the saved tensor from which a restore reads the slice's value.
WantedRows WantedValue(const RestoreSource& source, const SliceLayout& layout) {
  if (TakesOneValue(source, layout)) {
    const Shape shape(layout.full_shape.dims().subspan(1));
    return {layout.variable, layout.dtype, shape, {0, shape.rank() == 0 ? 1 : shape.dim(0)}};
  }
  return {layout.replicas > 0 ? ReplicasTensorName(layout) : layout.variable, layout.dtype,
          layout.full_shape, layout.rows};
}

// Returns the tensors that a restore of these slices reads from a checkpoint whose tensors are
// `stored`, without the tensors of dynamic tables and of histories.
BundleTensors TensorsOf(const BundleTensors& stored, const RestoreSource& source,
                        absl::Span<VariableSlice* const> shards) {
  BundleTensors tensors;
  for (const VariableSlice* shard : shards) {
    const SliceLayout& layout = shard->layout();
    // PlanTableParts checks the tensors of dynamic tables, so this function skips dynamic tables.
    if (layout.dynamic.has_value()) continue;
    const WantedRows value = WantedValue(source, layout);
    tensors[value.tensor] = {value.dtype, value.full_shape};
    for (const SlotSpec& slot : layout.rule_spec.slots) {
      const std::string name = SlotTensorName(layout, slot.name);
      if (!TakesSlot(stored, source, slot, name)) continue;
      tensors[name] = {DType::kFloat32, layout.full_shape_of(slot)};
    }
  }
  return tensors;
}

// Counts the variables and slots that a restore reads. All rows of a dynamic table count as one
// tensor, and each slot of the table as another.
uint32_t CountTensors(const RestoreSource& source, absl::Span<VariableSlice* const> shards) {
  const bool slots = source.slots || source.applied;
  const RestoreSource all = {source.prefix, source.slots, source.applied, /*new_slots=*/false};
  size_t count = TensorsOf({}, all, shards).size();
  std::set<std::string> tables;
  for (const VariableSlice* shard : shards) {
    const SliceLayout& layout = shard->layout();
    if (!layout.dynamic.has_value() || !tables.insert(layout.variable).second) continue;
    count += 1 + (slots ? layout.rule_spec.slots.size() : 0);
  }
  return static_cast<uint32_t>(count);
}

}  // namespace

std::string SlotTensorName(const SliceLayout& layout, const std::string& slot) {
  return absl::StrCat(layout.variable, kSlotInfix, layout.rule.op(), "/", slot);
}

std::string ReplicasTensorName(const SliceLayout& layout) {
  return absl::StrCat(layout.variable, "/.COHORT_REPLICAS");
}

absl::StatusOr<std::vector<ExtraTensor>> ExtrasOf(const proto::HoldShardRequest& request) {
  std::vector<ExtraTensor> extras;
  for (const proto::NamedTensor& named : request.extras()) {
    proto::TensorMeta meta;
    meta.set_dtype(named.tensor().dtype());
    *meta.mutable_dims() = named.tensor().dims();
    const std::string context = absl::StrCat("HoldShardRequest.extras '", named.name(), "'");
    const absl::StatusOr<size_t> bytes = BytesOf(meta);
    if (!bytes.ok()) return Annotate(bytes.status(), context);
    const std::string& data = named.tensor().data();
    // The bytes come from a peer and are copied into a tensor below, so there must be as many as
    // the tensor needs.
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

// Adds a whole tensor to the shard, as one saved slice with all rows of the tensor.
absl::Status AddWhole(HeldShard& held, const std::string& name, const Tensor& value) {
  const Shape& shape = value.shape();
  Payload bytes;
  if (value.num_bytes() > 0) bytes.push_back(SliceOf(value));
  return held.Add(name, {value.dtype(), shape}, {0, shape.rank() == 0 ? 1 : shape.dim(0)},
                  std::move(bytes));
}

// Adds a variable with one row for each replica to the shard: the rows of all replicas and, if the
// variable has an aggregation, their aggregated value.
absl::Status AddReplicas(HeldShard& held, const SliceLayout& layout, const Payload& value) {
  Tensor rows(layout.dtype, layout.full_shape);
  PayloadReader reader(value);
  RETURN_IF_ERROR(reader.Read(absl::MakeSpan(rows.mutable_raw(), rows.num_bytes())));
  RETURN_IF_ERROR(AddWhole(held, ReplicasTensorName(layout), rows));
  if (layout.aggregation == proto::AGGREGATION_NONE) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Tensor one, ValueOfRows({layout.variable, layout.aggregation}, rows));
  return AddWhole(held, layout.variable, one);
}

// Adds a slice's tensors to the shard in the order in which AddWanted() plans to read them: value
// and slots, or the parts of the dynamic table, and last the history.
absl::Status AddSnapshot(HeldShard& held, const SliceLayout& layout, SliceSnapshot snapshot) {
  if (snapshot.table.has_value()) {
    for (const PartTensor& tensor : TablePartsOf(layout, *snapshot.table)) {
      RETURN_IF_ERROR(AddWhole(held, tensor.name, tensor.value));
    }
    return AddWhole(held, HistoryTensorName(layout.variable, layout.rows.begin),
                    EncodeHistory(layout, snapshot.history));
  }
  if (layout.replicas > 0) {
    RETURN_IF_ERROR(AddReplicas(held, layout, snapshot.value));
  } else {
    RETURN_IF_ERROR(held.Add(layout.variable, {layout.dtype, layout.full_shape}, layout.rows,
                             std::move(snapshot.value)));
  }
  for (size_t i = 0; i < snapshot.slots.size(); ++i) {
    const SlotSpec& slot = layout.rule_spec.slots[i];
    RETURN_IF_ERROR(held.Add(SlotTensorName(layout, slot.name),
                             {DType::kFloat32, layout.full_shape_of(slot)}, layout.rows_of(slot),
                             std::move(snapshot.slots[i])));
  }
  return AddWhole(held, HistoryTensorName(layout.variable, layout.rows.begin),
                  EncodeHistory(layout, snapshot.history));
}

}  // namespace

absl::StatusOr<std::shared_ptr<HeldShard>> HoldShards(ShardTarget target,
                                                      absl::Span<VariableSlice* const> shards,
                                                      absl::Span<const ExtraTensor> extras,
                                                      VariableSlice::AskGate gate) {
  auto held = std::make_shared<HeldShard>(std::move(target));
  for (VariableSlice* shard : shards) {
    // TakeSnapshot locks one slice at a time, so pushes to the other slices continue while this
    // slice is locked.
    ASSIGN_OR_RETURN(SliceSnapshot snapshot, shard->TakeSnapshot(gate));
    RETURN_IF_ERROR(AddSnapshot(*held, shard->layout(), std::move(snapshot)));
  }
  for (const ExtraTensor& extra : extras) {
    RETURN_IF_ERROR(AddWhole(*held, extra.name, extra.value));
  }
  return held;
}

namespace {

// Adds the tensors that a restore of one slice reads to the plan: value and slots, or the parts of
// a dynamic table, and for a cut the history. AddSnapshot saves them in the same order, so a copy
// of all slices reads one contiguous range of a shard's bytes.
absl::Status AddWanted(const BundleTensors& tensors, const RestoreSource& source,
                       const SliceLayout& layout, std::vector<WantedRows>& plan) {
  std::optional<WantedRows> history;
  if (source.applied) {
    ASSIGN_OR_RETURN(history, WantedHistory(tensors, source, layout));
  }
  if (layout.dynamic.has_value()) {
    ASSIGN_OR_RETURN(const std::vector<WantedRows> parts, PlanTableParts(tensors, source, layout));
    plan.insert(plan.end(), parts.begin(), parts.end());
  } else {
    plan.push_back(WantedValue(source, layout));
    for (const SlotSpec& slot : layout.rule_spec.slots) {
      const std::string name = SlotTensorName(layout, slot.name);
      if (!TakesSlot(tensors, source, slot, name)) continue;
      plan.push_back({name, DType::kFloat32, layout.full_shape_of(slot), layout.rows_of(slot)});
    }
  }
  if (history.has_value()) plan.push_back(*std::move(history));
  return absl::OkStatus();
}

// Makes the state of a slice from `rows`, the tensors that were read for the entries of `plan`.
absl::StatusOr<SliceState> AssembleShard(const RestoreSource& source, const SliceLayout& layout,
                                         absl::Span<const WantedRows> plan,
                                         absl::Span<Tensor> rows) {
  SliceState state;
  if (source.applied) {
    ASSIGN_OR_RETURN(state.history, ReadHistory(plan.back().tensor, rows.back(), source, layout));
    // AddWanted() puts a slice's history last in the plan, so the history is taken off the end.
    rows.remove_suffix(1);
    plan.remove_suffix(1);
  }
  if (layout.dynamic.has_value()) {
    state.value = Tensor(layout.dtype, Shape{0});
    state.table = JoinTableParts(source, layout, plan, rows);
    return state;
  }
  state.value = std::move(rows[0]);
  if (TakesOneValue(source, layout)) {
    state.value = RowsOfValue({layout.variable, layout.aggregation}, state.value, layout.replicas);
  }
  size_t at = 1;
  for (const SlotSpec& slot : layout.rule_spec.slots) {
    // The plan has no entry for a slot that the restore does not read. So the name of the next
    // tensor in the plan tells whether it is this slot.
    if (at < rows.size() && plan[at].tensor == SlotTensorName(layout, slot.name)) {
      state.slots.push_back(std::move(rows[at++]));
    } else if (source.new_slots) {
      state.slots.push_back(NewSlot(slot, layout.shape_of(slot), state.value));
    }
  }
  return state;
}

}  // namespace

absl::StatusOr<std::vector<WantedRows>> PlanRestore(const BundleTensors& tensors,
                                                    const RestoreSource& source,
                                                    absl::Span<VariableSlice* const> shards) {
  // The names, types and shapes of all tensors are checked before any row is read.
  for (const auto& [name, tensor] : TensorsOf(tensors, source, shards)) {
    RETURN_IF_ERROR(CheckTensor(tensors, source, name, tensor));
  }
  std::vector<WantedRows> plan;
  for (size_t i = 0; i < shards.size(); ++i) {
    const size_t first = plan.size();
    RETURN_IF_ERROR(AddWanted(tensors, source, shards[i]->layout(), plan));
    for (size_t at = first; at < plan.size(); ++at) plan[at].shard = i;
  }
  return plan;
}

absl::StatusOr<LoadedShards> AssembleShards(const RestoreSource& source,
                                            absl::Span<VariableSlice* const> shards,
                                            absl::Span<const WantedRows> plan,
                                            std::vector<Tensor> rows) {
  COHORT_CHECK(rows.size() == plan.size(), "the rows are those of the plan");
  LoadedShards loaded;
  loaded.tensors = CountTensors(source, shards);
  size_t at = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const size_t first = at;
    // The plan lists all row ranges of one slice together, in the order of the slices.
    while (at < plan.size() && plan[at].shard == i) ++at;
    ASSIGN_OR_RETURN(SliceState state,
                     AssembleShard(source, shards[i]->layout(), plan.subspan(first, at - first),
                                   absl::MakeSpan(rows).subspan(first, at - first)));
    loaded.states.push_back(std::move(state));
  }
  return loaded;
}

absl::StatusOr<LoadedShards> LoadShards(FileSystem& files, const RestoreSource& source,
                                        absl::Span<VariableSlice* const> shards) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                   BundleReader::Open(files, source.prefix));
  ASSIGN_OR_RETURN(const std::vector<WantedRows> plan,
                   PlanRestore(reader->tensors(), source, shards));
  std::vector<Tensor> rows;
  for (const WantedRows& wanted : plan) {
    ASSIGN_OR_RETURN(Tensor value, reader->ReadRows(wanted.tensor, wanted.rows));
    rows.push_back(std::move(value));
  }
  return AssembleShards(source, shards, plan, std::move(rows));
}

absl::StatusOr<LoadedShards> InitialShards(absl::Span<VariableSlice* const> shards) {
  LoadedShards loaded;
  loaded.tensors = CountTensors({.prefix = "", .slots = true}, shards);
  for (const VariableSlice* shard : shards) {
    ASSIGN_OR_RETURN(SliceState state, VariableSlice::InitialState(shard->layout()));
    loaded.states.push_back(std::move(state));
  }
  return loaded;
}

}  // namespace cohort
