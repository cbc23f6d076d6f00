#include "coordinator/inspect/checkpoint_convert.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/formats/npz.h"
#include "common/formats/safetensors.h"
#include "common/formats/weights/open_weights.h"
#include "coordinator/inspect/text.h"
#include "coordinator/inspect/value_names.h"

namespace cohort {

namespace {

// A value to write: the entry of the file that is read, and the name in the new one.
struct Value {
  size_t entry = 0;
  std::string name;
};

// Returns the kind of file that a path means, or nothing for an ending that is not written.
std::optional<WeightFileKind> KindOf(const std::string& path) {
  const std::string name = BaseName(path);
  if (absl::EndsWith(name, ".npz")) return WeightFileKind::kNpz;
  if (absl::EndsWith(name, ".safetensors")) return WeightFileKind::kSafetensors;
  const absl::string_view prefix = absl::StripSuffix(name, ".index");
  // "ckpt-5", and TensorFlow's customary "model.ckpt" and "model.ckpt-5".
  const bool is_prefix = !absl::StrContains(prefix, '.') || absl::EndsWith(prefix, ".ckpt") ||
                         absl::StrContains(prefix, ".ckpt-");
  if (is_prefix && !prefix.empty()) return WeightFileKind::kTensorFlowCheckpoint;
  return std::nullopt;
}

absl::Status CheckIsNew(FileSystem& files, const std::string& path) {
  const absl::Status status = files.Open(path).status();
  if (absl::IsNotFound(status)) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("'", path, "' is there already; remove it or name another file"));
}

RowRange WholeRange(const Shape& shape) { return {0, shape.rank() == 0 ? 1 : shape.dim(0)}; }

absl::StatusOr<std::vector<proto::SavedSlice>> WriteShard(FileSystem& files, const WeightFile& from,
                                                          const std::vector<Value>& values,
                                                          const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::unique_ptr<DataShardWriter> writer,
                   DataShardWriter::Create(files, prefix, /*shard=*/0, /*num_shards=*/1));
  for (const Value& value : values) {
    ASSIGN_OR_RETURN(const Tensor tensor, from.source->Read(value.entry));
    RETURN_IF_ERROR(writer->Add(value.name, tensor.shape(), WholeRange(tensor.shape()), tensor));
  }
  return writer->Finish();
}

// Writes a checkpoint of one data shard, reading one value at a time.
absl::Status WriteBundle(FileSystem& files, const WeightFile& from,
                         const std::vector<Value>& values, const std::string& prefix) {
  // The values are checked against the format before anything is written.
  for (const Value& value : values) {
    const WeightEntry& entry = from.entries[value.entry];
    RETURN_IF_ERROR(
        DescribeSlice(value.name, {entry.dtype, entry.shape}, WholeRange(entry.shape)).status());
  }
  const std::string shard = DataShardPath(prefix, 0, 1);
  const auto saved = WriteShard(files, from, values, prefix);
  if (!saved.ok()) {
    RemoveTemporaries(files, shard);
    return saved.status();
  }
  absl::Status written = WriteIndex(files, prefix, 1, *saved);
  // A shard without an index would be of no use. The first error is the one to report.
  if (!written.ok()) files.Remove(shard).IgnoreError();
  return written;
}

absl::Status WriteTensors(FileSystem& files, const WeightFile& from,
                          const std::vector<Value>& values, WeightFileKind kind,
                          const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (const Value& value : values) {
    ASSIGN_OR_RETURN(Tensor tensor, from.source->Read(value.entry));
    tensors.push_back({value.name, std::move(tensor)});
  }
  return kind == WeightFileKind::kNpz ? WriteNpz(files, path, tensors)
                                      : WriteSafetensors(files, path, tensors, {});
}

}  // namespace

absl::StatusOr<std::string> ConvertCheckpoint(FileSystem& files, const std::string& from,
                                              const std::string& to) {
  const std::optional<WeightFileKind> kind = KindOf(to);
  if (!kind.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", to,
        "' has an ending that is not written; name a file that ends in .npz or .safetensors, or "
        "the prefix of a TensorFlow checkpoint, such as ckpt-1 or model.ckpt"));
  }
  ASSIGN_OR_RETURN(const WeightFile file, OpenWeights(files, from));
  const std::vector<std::string> names = VariableNames(file);
  std::vector<Value> values;
  for (size_t i = 0; i < file.entries.size(); ++i) {
    if (file.entries[i].dtype != DType::kUndefined) values.push_back({i, names[i]});
  }
  if (values.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(from, " has no value that can be converted"));
  }
  if (kind == WeightFileKind::kTensorFlowCheckpoint) {
    const std::string prefix(absl::StripSuffix(to, ".index"));
    RETURN_IF_ERROR(CheckIsNew(files, absl::StrCat(prefix, ".index")));
    RETURN_IF_ERROR(WriteBundle(files, file, values, prefix));
  } else {
    RETURN_IF_ERROR(CheckIsNew(files, to));
    RETURN_IF_ERROR(WriteTensors(files, file, values, *kind, to));
  }
  std::string text = absl::StrCat("wrote ", to, " (", WeightFileKindName(*kind),
                                  "): ", values.size(), " values\n");
  for (const std::string& name : file.left_out) {
    absl::StrAppend(&text, "left out, for its type: ", Printable(name, kShownNameMax), "\n");
  }
  return text;
}

}  // namespace cohort
