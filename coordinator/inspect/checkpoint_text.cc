#include "coordinator/inspect/checkpoint_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/formats/weights/open_weights.h"
#include "coordinator/inspect/text.h"

namespace cohort {

namespace {

// Upper bound on the reason for which a checkpoint cannot be opened.
constexpr size_t kReasonMax = 1000;

absl::StatusOr<uint64_t> FileBytes(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  return file->size();
}

// Returns the prefix of the latest checkpoint, or "" without a state file.
absl::StatusOr<std::string> LatestIn(FileSystem& files, const std::string& directory) {
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(files, directory);
  if (absl::IsNotFound(state.status())) return std::string();
  RETURN_IF_ERROR(state.status());
  return BaseName(state->latest);
}

absl::StatusOr<std::string> ListDirectory(FileSystem& files, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> prefixes, ListCheckpoints(files, directory));
  ASSIGN_OR_RETURN(const std::string latest, LatestIn(files, directory));
  if (prefixes.empty()) return absl::StrCat(directory, " has no checkpoints\n");
  TextTable table({"Checkpoint", "Values #", "Bytes #", ""});
  for (const std::string& prefix : prefixes) {
    const std::string name = BaseName(prefix);
    const std::string mark = name == latest ? "latest" : "";
    const auto reader = BundleReader::Open(files, prefix);
    if (!reader.ok()) {
      const std::string reason = Printable(reader.status().message(), kReasonMax);
      table.Add({{Printable(name, kShownNameMax)},
                 {"?"},
                 {"?"},
                 {absl::StrCat(mark, mark.empty() ? "" : "; ", "cannot be opened: ", reason)}});
      continue;
    }
    uint64_t bytes = 0;
    ASSIGN_OR_RETURN(const std::vector<std::string> parts, ListCheckpointFiles(files, prefix));
    for (const std::string& part : parts) bytes += FileBytes(files, part).value_or(0);
    const size_t values = (*reader)->tensors().size() + (*reader)->left_out().size();
    table.Add(
        {{Printable(name, kShownNameMax)}, {absl::StrCat(values)}, {absl::StrCat(bytes)}, {mark}});
  }
  return table.ToText();
}

}  // namespace

absl::StatusOr<std::string> ListCheckpointText(FileSystem& files, const std::string& path) {
  if (files.List(path).ok()) return ListDirectory(files, path);
  const std::string prefix(absl::StripSuffix(path, ".index"));
  const auto parts = ListCheckpointFiles(files, prefix);
  if (!parts.ok() || parts->empty()) {
    return absl::NotFoundError(
        absl::StrCat("'", path, "' is neither a directory nor the prefix of a checkpoint"));
  }
  TextTable table({"File", "Bytes #"});
  for (const std::string& part : *parts) {
    ASSIGN_OR_RETURN(const uint64_t bytes, FileBytes(files, part));
    table.Add({{Printable(BaseName(part), kShownNameMax)}, {absl::StrCat(bytes)}});
  }
  return table.ToText();
}

absl::StatusOr<std::string> ShowCheckpointText(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const WeightFile file, OpenWeights(files, path));
  TextTable table({"Name", "Type", "Shape", "Bytes #"});
  uint64_t all = 0;
  size_t readable = 0;
  for (const WeightEntry& entry : file.entries) {
    // Values that cannot be read stand below the table.
    if (entry.dtype == DType::kUndefined) continue;
    const uint64_t bytes =
        static_cast<uint64_t>(entry.shape.num_elements()) * ElementSize(entry.dtype);
    all += bytes;
    ++readable;
    table.Add({{Printable(entry.name, kShownNameMax)},
               {std::string(DTypeName(entry.dtype))},
               {entry.shape.ToString()},
               {absl::StrCat(bytes)}});
  }
  const std::string& version = file.texts.keras_version;
  std::string text = absl::StrCat(WeightFileKindName(file.kind), version.empty() ? "" : ", Keras ",
                                  Printable(version, kShownNameMax), "\n", table.ToText(), "\n",
                                  readable, " values, ", all, " bytes (", SizeText(all), ")\n");
  for (const std::string& name : file.left_out) {
    absl::StrAppend(&text, "Not read, for its type: ", Printable(name, kShownNameMax), "\n");
  }
  return text;
}

}  // namespace cohort
