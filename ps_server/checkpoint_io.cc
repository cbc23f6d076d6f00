#include "ps_server/checkpoint_io.h"

#include <cstring>
#include <memory>
#include <set>
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

struct Loaded {
  Tensor value;
  std::vector<Tensor> slots;
};

absl::StatusOr<Loaded> Load(const BundleReader& reader, const SliceLayout& layout, bool slots) {
  Loaded loaded;
  ASSIGN_OR_RETURN(loaded.value, reader.ReadRows(layout.variable, layout.rows));
  if (!slots) return loaded;
  for (const SlotSpec& slot : layout.rule_spec.slots) {
    ASSIGN_OR_RETURN(Tensor value, reader.ReadRows(SlotTensorName(layout, slot.name), layout.rows));
    loaded.slots.push_back(std::move(value));
  }
  return loaded;
}

}  // namespace

std::string SlotTensorName(const SliceLayout& layout, const std::string& slot) {
  return absl::StrCat(layout.variable, "/.OPTIMIZER_SLOT/", layout.rule.op(), "/", slot);
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

absl::StatusOr<std::vector<proto::SavedSlice>> SaveShards(FileSystem& files,
                                                          const ShardTarget& target,
                                                          absl::Span<VariableShard* const> shards,
                                                          absl::Span<const ExtraTensor> extras) {
  std::vector<VariableShard::Snapshot> snapshots;
  for (const VariableShard* shard : shards) snapshots.push_back(shard->TakeSnapshot());
  ASSIGN_OR_RETURN(const std::unique_ptr<DataShardWriter> writer,
                   DataShardWriter::Create(files, target.prefix, target.shard, target.num_shards));
  for (size_t i = 0; i < shards.size(); ++i) {
    const SliceLayout& layout = shards[i]->layout();
    const VariableShard::Snapshot snapshot = std::move(snapshots[i]);  // released when written
    RETURN_IF_ERROR(writer->Add(layout.variable, layout.full_shape, layout.rows, snapshot.value));
    for (size_t s = 0; s < snapshot.slots.size(); ++s) {
      const std::string name = SlotTensorName(layout, layout.rule_spec.slots[s].name);
      RETURN_IF_ERROR(writer->Add(name, layout.full_shape, layout.rows, snapshot.slots[s]));
    }
  }
  for (const ExtraTensor& extra : extras) {
    const Shape& shape = extra.value.shape();
    const RowRange all = {0, shape.rank() == 0 ? 1 : shape.dim(0)};
    RETURN_IF_ERROR(writer->Add(extra.name, shape, all, extra.value));
  }
  return writer->Finish();
}

absl::StatusOr<uint32_t> RestoreShards(FileSystem& files, const RestoreSource& source,
                                       absl::Span<VariableShard* const> shards,
                                       absl::FunctionRef<absl::Status()> admit) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                   BundleReader::Open(files, source.prefix));
  std::set<std::string> names;
  for (const VariableShard* shard : shards) {
    const SliceLayout& layout = shard->layout();
    const BundleTensor value{layout.dtype, layout.full_shape};
    RETURN_IF_ERROR(CheckTensor(*reader, source, layout.variable, value));
    names.insert(layout.variable);
    for (const SlotSpec& slot : layout.rule_spec.slots) {
      if (!source.slots) break;
      const std::string name = SlotTensorName(layout, slot.name);
      RETURN_IF_ERROR(CheckTensor(*reader, source, name, {DType::kFloat32, layout.full_shape}));
      names.insert(name);
    }
  }
  std::vector<Loaded> loaded;
  for (const VariableShard* shard : shards) {
    ASSIGN_OR_RETURN(Loaded one, Load(*reader, shard->layout(), source.slots));
    loaded.push_back(std::move(one));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    RETURN_IF_ERROR(shards[i]->Restore(loaded[i].value, loaded[i].slots, admit));
  }
  return static_cast<uint32_t>(names.size());
}

}  // namespace cohort
