#include "coordinator/local/state_directory.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/cluster/json_text.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

using Json = nlohmann::json;

constexpr char kLockFile[] = "coordinator.lock";
constexpr char kRecordEnding[] = ".process";

// Makes an error of class CONFIGURATION about a state directory that the user has to correct.
absl::Status Misused(absl::string_view text) {
  return MakeError(absl::StatusCode::kFailedPrecondition, text, proto::CONFIGURATION);
}

// Returns the system's error for a state directory that cannot be used, as an error of class
// CONFIGURATION with the remedy.
absl::Status Misused(const absl::Status& error) {
  return MakeError(
      error.code(),
      absl::StrCat(error.message(), ": give --state_dir a directory that this user may write to"),
      proto::CONFIGURATION);
}

// Returns the task to which the record file `name` belongs, such as ps:1 for "ps-1.process";
// nothing if the name is not that of a record file.
std::optional<TaskId> TaskOfRecord(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, kRecordEnding)) return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, absl::MaxSplits('-', 1));
  const absl::StatusOr<Role> role = RoleFromName(parts.first);
  TaskId task;
  if (!role.ok() || !absl::SimpleAtoi(parts.second, &task.index)) return std::nullopt;
  task.role = *role;
  return task;
}

// Returns the record that a JSON object contains, or nothing if a field is missing or has another
// type.
std::optional<StateDirectory::Record> RecordFromJson(const Json& json) {
  const auto is = [&json](const char* key, bool (Json::*type)() const noexcept) {
    const auto found = json.find(key);
    return found != json.end() && ((*found).*type)();
  };
  if (!json.is_object() || !is("pid", &Json::is_number_unsigned) ||
      !is("start_time", &Json::is_number_unsigned) || !is("boot", &Json::is_string) ||
      !is("program", &Json::is_string) || !is("arguments", &Json::is_array)) {
    return std::nullopt;
  }
  StateDirectory::Record record;
  record.process = {json["pid"].get<pid_t>(), json["start_time"].get<uint64_t>(),
                    json["boot"].get<std::string>()};
  record.program = json["program"].get<std::string>();
  for (const Json& argument : json["arguments"]) {
    if (!argument.is_string()) return std::nullopt;
    record.arguments.push_back(argument.get<std::string>());
  }
  // A record with process number 0 is refused: a signal to number 0 would reach this process's own
  // group.
  if (record.process.pid <= 0) return std::nullopt;
  return record;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Open(FileSystem& files,
                                                                     const std::string& path) {
  if (const absl::Status made = files.MakeDirectories(path); !made.ok()) return Misused(made);
  absl::StatusOr<std::unique_ptr<FileLock>> lock = files.Lock(
      JoinPath(path, kLockFile), absl::StrCat("the coordinator with process id ", getpid()));
  if (absl::IsFailedPrecondition(lock.status())) {
    return Misused(absl::StrCat("the state directory ", path,
                                " is in use: ", lock.status().message(),
                                ": wait for its end, or give --state_dir another directory"));
  }
  if (!lock.ok()) return Misused(lock.status());
  return std::unique_ptr<StateDirectory>(new StateDirectory(files, path, *std::move(lock)));
}

std::string StateDirectory::FileOf(TaskId task, absl::string_view ending) const {
  return JoinPath(path_, absl::StrCat(RoleName(task.role), "-", task.index, ending));
}

absl::Status StateDirectory::Write(TaskId task, const Record& record) {
  const Json json = {{"pid", static_cast<uint64_t>(record.process.pid)},
                     {"start_time", record.process.start_time},
                     {"boot", record.process.boot},
                     {"program", record.program},
                     {"arguments", record.arguments}};
  const std::string path = FileOf(task, kRecordEnding);
  RemoveTemporaries(files_, path);
  return WriteFileAtomically(files_, path, absl::StrCat(JsonLine(json), "\n"));
}

absl::Status StateDirectory::Remove(TaskId task) {
  // The address file is removed before the record, because without a record no coordinator would
  // remove it.
  RETURN_IF_ERROR(files_.Remove(AddressFile(task)));
  return files_.Remove(FileOf(task, kRecordEnding));
}

absl::StatusOr<std::map<TaskId, StateDirectory::Record>> StateDirectory::Read() {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(path_));
  std::map<TaskId, Record> records;
  for (const std::string& name : names) {
    const std::optional<TaskId> task = TaskOfRecord(name);
    if (!task.has_value()) continue;
    ASSIGN_OR_RETURN(const std::string text, ReadFile(files_, JoinPath(path_, name)));
    const absl::StatusOr<Json> json = ParseJsonText(text);
    const std::optional<Record> record = json.ok() ? RecordFromJson(*json) : std::nullopt;
    if (!record.has_value()) {
      return Misused(absl::StrCat(JoinPath(path_, name), " is damaged: see that ", task->ToString(),
                                  " of this directory has ended, and remove it"));
    }
    records.emplace(*task, *record);
  }
  return records;
}

}  // namespace cohort
