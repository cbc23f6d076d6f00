#include "common/checkpoint/checkpoint_files.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

constexpr absl::string_view kIndexSuffix = ".index";
constexpr int kNamesMax = 1000;

bool TakeNumber(absl::string_view& rest) {
  const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  rest.remove_prefix(end);
  return end >= 5;  // "%05d"
}

// Whether `suffix`, what follows the prefix in a file's name, is one that a save writes: "model" is
// also the beginning of the names of checkpoint "model.data-set".
bool IsCheckpointSuffix(absl::string_view suffix) {
  suffix = absl::StripSuffix(suffix, ".tmp");
  if (suffix == kIndexSuffix) return true;
  return absl::ConsumePrefix(&suffix, ".data-") && TakeNumber(suffix) &&
         absl::ConsumePrefix(&suffix, "-of-") && TakeNumber(suffix) && suffix.empty();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListCheckpointFiles(FileSystem& files,
                                                             const std::string& prefix) {
  const std::string directory = DirectoryOf(prefix);
  const std::string base = BaseName(prefix);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    absl::string_view suffix = name;
    if (absl::ConsumePrefix(&suffix, base) && IsCheckpointSuffix(suffix)) {
      paths.push_back(JoinPath(directory, name));
    }
  }
  return paths;
}

absl::StatusOr<std::vector<std::string>> ListCheckpoints(FileSystem& files,
                                                         const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  std::vector<std::string> prefixes;
  for (const std::string& name : names) {
    absl::string_view base = name;
    if (absl::ConsumeSuffix(&base, kIndexSuffix)) prefixes.push_back(JoinPath(directory, base));
  }
  return prefixes;
}

absl::Status DeleteCheckpoint(FileSystem& files, const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListCheckpointFiles(files, prefix));
  RETURN_IF_ERROR(files.Remove(IndexPath(prefix)));
  for (const std::string& path : paths) RETURN_IF_ERROR(files.Remove(path));
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnusedCheckpointName(FileSystem& files, const std::string& directory,
                                                 const std::string& name) {
  for (int i = 1; i <= kNamesMax; ++i) {
    std::string candidate = i == 1 ? name : absl::StrCat(name, "-", i);
    const absl::Status unused = CheckNotComplete(files, JoinPath(directory, candidate));
    if (unused.ok()) return candidate;
    if (!absl::IsAlreadyExists(unused)) return unused;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      directory, " has ", kNamesMax, " checkpoints called ", name, "; use another directory"));
}

absl::StatusOr<std::string> FindCheckpoint(FileSystem& files, const std::string& directory,
                                           const std::string& which) {
  if (which != "latest") return which;
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(files, directory);
  if (absl::IsNotFound(state.status())) return std::string();
  RETURN_IF_ERROR(state.status());
  return absl::StartsWith(state->latest, "/") ? state->latest : JoinPath(directory, state->latest);
}

}  // namespace cohort
