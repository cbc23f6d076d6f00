#include "coordinator/daemon/job_paths.h"

#include <functional>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/path_check.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/api/checkpoint_manager.h"
#include "coordinator/members/ctl_command.h"
#include "coordinator/recovery/recovery_store.h"
#include "coordinator/train/init_weights.h"
#include "coordinator/train/job_settings.h"
#include "coordinator/train/model_file.h"
#include "coordinator/train/train_progress.h"

namespace cohort {

namespace {

// A path, and the flag or the field of the job file that names it. `name` is what error texts begin
// with, such as "--job" or "job.json: export.onnx".
struct NamedPath {
  std::string name;
  std::string path;
};

// A directory to which the job writes. `writes` returns whether the job may write or remove a file
// with a given name there.
struct OutputDirectory {
  NamedPath directory;
  std::function<bool(absl::string_view)> writes;
};

std::string KeyOf(const JobPlaces& places, absl::string_view key) {
  return absl::StrCat(places.job_file, ": ", key);
}

// Appends to `paths` the files that the data source `source` of the job file names.
void AddSource(const std::string& key, const DataSourceSpec& source,
               std::vector<NamedPath>& paths) {
  if (const auto* mnist = std::get_if<MnistSpec>(&source)) {
    paths.push_back({absl::StrCat(key, ".config.images"), mnist->images});
    paths.push_back({absl::StrCat(key, ".config.labels"), mnist->labels});
    return;
  }
  const auto* idx = std::get_if<IdxSpec>(&source);
  const auto* clicks = std::get_if<ClickLogSpec>(&source);
  const std::vector<std::string> none;
  if (const auto* images = std::get_if<ImageDirectorySpec>(&source)) {
    paths.push_back({absl::StrCat(key, ".config.directory"), images->directory});
    return;
  }
  const auto* records = std::get_if<RecordSpec>(&source);
  const auto* numpy = std::get_if<NumpySpec>(&source);
  const auto& files = idx != nullptr       ? idx->paths
                      : clicks != nullptr  ? clicks->paths
                      : records != nullptr ? records->paths
                      : numpy != nullptr   ? numpy->paths
                                           : none;
  for (size_t i = 0; i < files.size(); ++i) {
    paths.push_back({absl::StrCat(key, ".config.paths.", i), files[i]});
  }
}

bool IsSearched(const DataSourceSpec& source) {
  const auto* mnist = std::get_if<MnistSpec>(&source);
  return mnist != nullptr && mnist->images.empty();
}

// Returns whether the job names no files of MNIST, so that the daemon looks for them, first in
// COHORT_DATA_DIR.
bool SearchesMnist(const DataSpec& data) {
  return IsSearched(data.train) || (data.test.has_value() && IsSearched(*data.test));
}

std::vector<NamedPath> DataFiles(const JobPlaces& places) {
  std::vector<NamedPath> paths;
  const DataSpec& data = places.job.data;
  AddSource(KeyOf(places, "data.train"), data.train, paths);
  if (data.test.has_value()) AddSource(KeyOf(places, "data.test"), *data.test, paths);
  for (size_t i = 0; i < data.pipeline.size(); ++i) {
    const std::string& file = data.pipeline[i].map.vocabulary_file;
    if (file.empty()) continue;
    paths.push_back({KeyOf(places, absl::StrCat("data.pipeline.", i, ".config.vocabulary")), file});
  }
  return paths;
}

// Returns the path in --membership, or an empty path if the list comes from DNS.
NamedPath MembershipFile(const JobPlaces& places) {
  const bool is_file = !absl::StartsWith(places.membership, "dns:");
  return {"--membership", is_file ? places.membership : ""};
}

// Returns the files of the checkpoint that the job's field checkpoint.restore names by its prefix.
std::vector<NamedPath> RestoredFiles(const JobPlaces& places, FileSystem& files) {
  const CheckpointSpec& checkpoint = places.job.checkpoint;
  std::vector<NamedPath> paths;
  // "latest" names a checkpoint in checkpoint.directory, which is an output directory of the job
  // and checked as such.
  if (checkpoint.restore.empty() || checkpoint.restore == "latest") return paths;
  const auto prefix = FindCheckpoint(files, checkpoint.directory, checkpoint.restore);
  if (!prefix.ok()) return paths;
  const auto listed = ListCheckpointFiles(files, *prefix);
  for (const std::string& file : listed.ok() ? *listed : std::vector<std::string>()) {
    paths.push_back({KeyOf(places, "checkpoint.restore"), file});
  }
  return paths;
}

// Returns all files that the job reads, as far as they are known before the job starts.
std::vector<NamedPath> Inputs(const JobPlaces& places, const Environment& environment,
                              FileSystem& files) {
  std::vector<NamedPath> inputs = {
      {"--job", places.job_file},
      MembershipFile(places),
      {KeyOf(places, InitFromKey(places.job)), places.job.checkpoint.init_from.path}};
  const std::string& model = places.job.model.file_form.file;
  if (model != places.job.checkpoint.init_from.path) {
    inputs.push_back({KeyOf(places, "model.keras"), model});
  }
  for (auto& more : {DataFiles(places), RestoredFiles(places, files)}) {
    inputs.insert(inputs.end(), more.begin(), more.end());
  }
  const std::string data = environment("COHORT_DATA_DIR").value_or("");
  if (data.empty() || !SearchesMnist(places.job.data)) return inputs;
  const std::string mnist = JoinPath(data, "mnist");
  const auto listed = files.List(mnist);
  for (const std::string& name : listed.ok() ? *listed : std::vector<std::string>()) {
    inputs.push_back({"COHORT_DATA_DIR", JoinPath(mnist, name)});
  }
  return inputs;
}

std::vector<OutputDirectory> OutputDirectories(const JobPlaces& places) {
  const JobSpec& job = places.job;
  const auto of_checkpoints = [](absl::string_view name) {
    return name == "checkpoint" || absl::StartsWith(name, "ckpt-");
  };
  const auto of_recovery = [](absl::string_view name) {
    return absl::StartsWith(name, "recovery-") || name == kRecoveryLockFile;
  };
  const auto of_tasks = [](absl::string_view name) {
    return name == kCtlAddressFile || name == "coordinator.lock" || absl::StartsWith(name, "ps-") ||
           absl::StartsWith(name, "worker-") || absl::StartsWith(name, "cohort-worker-");
  };
  const char* const recovery =
      job.recovery.directory.empty() ? "checkpoint.directory" : "recovery.directory";
  const bool has_recovery = !job.recovery.directory.empty() || !job.checkpoint.directory.empty();
  std::vector<OutputDirectory> directories = {
      {{KeyOf(places, "checkpoint.directory"), job.checkpoint.directory}, of_checkpoints},
      {{KeyOf(places, recovery), has_recovery ? RecoveryDirectoryOf(places) : ""}, of_recovery}};
  if (places.has_local_tasks) {
    directories.push_back({{"--state_dir", places.state_directory}, of_tasks});
  }
  return directories;
}

// Returns the files that the job's exports write: those that it names, and beside an ONNX model a
// file for the values of a large model.
std::vector<NamedPath> ExportFiles(const JobPlaces& places) {
  std::vector<NamedPath> files;
  for (const auto& [key, path] : places.job.export_to.Files()) {
    files.push_back({KeyOf(places, key), path});
  }
  const std::string& onnx = places.job.export_to.onnx;
  if (!onnx.empty()) {
    files.push_back({KeyOf(places, "export.onnx"), absl::StrCat(onnx, ".data")});
  }
  return files;
}

// Adds a problem if `file` lies in a directory to which the job writes, and has a name that the job
// may overwrite or remove there. Returns whether it has added one.
bool CheckDirectoryAgainst(const OutputDirectory& output, const NamedPath& file,
                           std::vector<std::string>& problems) {
  if (!output.writes(BaseName(file.path))) return false;
  if (!FilePlace(DirectoryOf(file.path)).IsSame(FilePlace(output.directory.path))) return false;
  problems.push_back(absl::StrCat(output.directory.name, ": '", output.directory.path,
                                  "' is where files such as '", file.path, "', which ", file.name,
                                  " names, are written and removed; name another directory"));
  return true;
}

// Adds a problem if two exports would write the same file.
void CheckDiffers(const NamedPath& file, const NamedPath& other,
                  std::vector<std::string>& problems) {
  if (!FilePlace(file.path).IsSame(FilePlace(other.path))) return;
  problems.push_back(absl::StrCat(file.name, ": '", file.path, "' is the file that ", other.name,
                                  " writes; name a file of its own"));
}

// Adds a problem if the export would overwrite an input of the job, or needs a file where a
// directory has to be. Returns whether it has added one.
bool CheckExport(const NamedPath& file, const std::vector<NamedPath>& inputs,
                 const std::vector<OutputDirectory>& directories,
                 std::vector<std::string>& problems) {
  const FilePlace place(file.path);
  for (const NamedPath& input : inputs) {
    if (input.path.empty() || !place.IsSame(FilePlace(input.path))) continue;
    problems.push_back(absl::StrCat(file.name, ": '", file.path, "' is the file '", input.path,
                                    "' that ", input.name,
                                    " names, and the job reads it; name a file of its own"));
    return true;
  }
  for (const OutputDirectory& output : directories) {
    if (output.directory.path.empty()) continue;
    const FilePlace directory(output.directory.path);
    if (!place.IsSame(directory) && !directory.IsBelow(place)) continue;
    problems.push_back(absl::StrCat(file.name, ": '", file.path, "' has to be a directory for ",
                                    output.directory.name, " '", output.directory.path,
                                    "'; name a file of its own"));
    return true;
  }
  return false;
}

}  // namespace

std::string RecoveryDirectoryOf(const JobPlaces& places) {
  const JobSpec& job = places.job;
  if (!job.recovery.enabled) return "";
  if (!job.recovery.directory.empty()) return job.recovery.directory;
  if (!job.checkpoint.directory.empty()) return JoinPath(job.checkpoint.directory, "recovery");
  // Without --state_dir, local tasks get a new directory, which does not exist before the start.
  const bool has_state = places.has_local_tasks && !places.state_directory.empty();
  return has_state ? JoinPath(places.state_directory, "recovery") : "";
}

MnistSearch MnistSearchOf(const Environment& environment) {
  MnistSearch search;
  search.data_directory = environment("COHORT_DATA_DIR").value_or("");
  const std::string home = environment("HOME").value_or("");
  if (!home.empty()) search.cache_directory = JoinPath(home, ".cache/cohort");
  return search;
}

std::vector<std::string> UnusablePaths(const JobPlaces& places, const Environment& environment) {
  const JobSpec& job = places.job;
  std::vector<NamedPath> paths = {
      {"--job", places.job_file},
      {"--state_dir", places.state_directory},
      MembershipFile(places),
      {KeyOf(places, "checkpoint.directory"), job.checkpoint.directory},
      {KeyOf(places, "checkpoint.restore"), job.checkpoint.restore},
      {KeyOf(places, "checkpoint.init_from"), job.checkpoint.init_from.path},
      {KeyOf(places, "recovery.directory"), job.recovery.directory}};
  for (const auto& [key, path] : job.export_to.Files()) paths.push_back({KeyOf(places, key), path});
  for (NamedPath& file : DataFiles(places)) paths.push_back(std::move(file));
  if (SearchesMnist(job.data)) {
    paths.push_back({"COHORT_DATA_DIR", environment("COHORT_DATA_DIR").value_or("")});
  }
  std::vector<std::string> problems;
  for (const auto& [name, path] : paths) {
    const absl::Status expanded = CheckLocalPath(path);
    if (!expanded.ok()) problems.push_back(absl::StrCat(name, ": ", expanded.message()));
  }
  return problems;
}

std::vector<std::string> OutputProblems(const JobPlaces& places, const Environment& environment,
                                        FileSystem& files) {
  std::vector<std::string> problems;
  const std::vector<NamedPath> inputs = Inputs(places, environment, files);
  const std::vector<NamedPath> exports = ExportFiles(places);
  const std::vector<OutputDirectory> directories = OutputDirectories(places);
  std::set<std::string> refused;  // the names of the directories and exports that cannot be used
  const std::string& bundle = places.job.export_to.tf_checkpoint;
  if (const std::string key = KeyOf(places, "export.tf_checkpoint"); absl::EndsWith(bundle, "/")) {
    refused.insert(key);
    problems.push_back(absl::StrCat(key, ": '", bundle, "' ends in a slash; name how the files of ",
                                    "the checkpoint begin, such as '", bundle, "model'"));
  }
  for (const OutputDirectory& output : directories) {
    const auto& [name, path] = output.directory;
    // Recovery checkpoints lie below checkpoint.directory by default, and would have its problem.
    if (path.empty() || refused.count(name) > 0) continue;
    if (const absl::Status made = CheckDirectoryPath(path); !made.ok()) {
      refused.insert(name);
      problems.push_back(
          absl::StrCat(name, ": ", made.message(), "; name a directory that can be written to"));
      continue;
    }
    // The files of checkpoint.restore may lie in any output directory, because the job does not
    // overwrite checkpoints, and removes only old ones.
    for (const NamedPath& input : inputs) {
      if (input.name != KeyOf(places, "checkpoint.restore")) {
        CheckDirectoryAgainst(output, input, problems);
      }
    }
    for (const NamedPath& file : exports) {
      if (refused.count(file.name) > 0) continue;
      if (CheckDirectoryAgainst(output, file, problems)) refused.insert(file.name);
    }
  }
  for (size_t i = 0; i < exports.size(); ++i) {
    const NamedPath& file = exports[i];
    // All files of a key follow from one value, so one problem is enough.
    if (refused.count(file.name) > 0) continue;
    if (const absl::Status writable = CheckFilePath(file.path); !writable.ok()) {
      refused.insert(file.name);
      problems.push_back(absl::StrCat(file.name, ": ", writable.message(),
                                      "; name a path that can be written to"));
    } else if (CheckExport(file, inputs, directories, problems)) {
      refused.insert(file.name);
    }
    for (size_t other = 0; other < i; ++other) CheckDiffers(file, exports[other], problems);
  }
  return problems;
}

absl::Status CheckBeginning(const JobPlaces& places, FileSystem& files,
                            absl::Span<const proto::VariableLayout> variables) {
  const JobSpec& job = places.job;
  if (const std::string recovery = RecoveryDirectoryOf(places); !recovery.empty()) {
    const RecoveryStore store(files, recovery);
    const auto left = store.ReadLeft();
    if (!left.ok()) return Annotate(left.status(), "the job's recovery checkpoints");
    RETURN_IF_ERROR(store.CheckJob(*left, job.name));
    if (!left->checkpoints.empty()) {
      const TrainProgress progress({{SettingsText(job), job.model.file_form}, recovery});
      return progress.CheckSettings(left->checkpoints.front().state);
    }
  }
  const std::string& restore = job.checkpoint.restore;
  if (!restore.empty()) {
    RETURN_IF_ERROR(Annotate(CheckRestorable(files, job.checkpoint.directory, restore, variables),
                             "checkpoint.restore"));
    const auto found = FindCheckpoint(files, job.checkpoint.directory, restore);
    if (found.ok() && !found->empty()) return absl::OkStatus();
  }
  if (job.checkpoint.init_from.path.empty()) return absl::OkStatus();
  return Annotate(CheckInitFrom(files, job, variables), InitFromKey(job));
}

}  // namespace cohort
