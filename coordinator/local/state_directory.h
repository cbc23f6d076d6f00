#pragma once

// The record of a local cluster on disk, by which a restarted coordinator finds the tasks that the
// earlier coordinator has left:
//   coordinator.lock  held by the living coordinator, with its process number
//   ROLE-INDEX.process  the identity of a task's process, and how the process was started
//   ROLE-INDEX.address  written by the task once it listens
//   ROLE-INDEX.log      stdout and stderr of the task
//   cohort-worker-INDEX-TIME.flight.json  calls of a group that has failed (--flight_dir)
// The system frees the lock when the process of its holder ends, however it ends.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/base/unique_fd.h"
#include "common/cluster/cluster_spec.h"
#include "coordinator/local/process_id.h"

namespace cohort {

// The state directory of one coordinator, which holds its lock. Thread-safe.
class StateDirectory {
 public:
  struct Record {
    ProcessId process;
    std::string program;
    // Program arguments that must be equal for the task to be adopted.
    std::vector<std::string> arguments;
  };

  // Opens and locks the directory, and creates it if it does not exist. Errors: FAILED_PRECONDITION
  // of class CONFIGURATION naming the process of another coordinator that uses the directory; the
  // system's error with class CONFIGURATION otherwise.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(FileSystem& files,
                                                              const std::string& path);

  const std::string& path() const { return path_; }
  std::string AddressFile(TaskId task) const { return FileOf(task, ".address"); }
  // Returns the grant file of a task. When the task's process ends, the file stays, because the
  // next process reads it.
  std::string GrantFile(TaskId task) const { return FileOf(task, ".grant"); }
  std::string LogFile(TaskId task) const { return FileOf(task, ".log"); }

  absl::Status Write(TaskId task, const Record& record);
  // Removes the record and the address of a task that has ended.
  absl::Status Remove(TaskId task);
  // Reads the records of all tasks. Errors: FAILED_PRECONDITION of class CONFIGURATION naming a
  // damaged file.
  absl::StatusOr<std::map<TaskId, Record>> Read();

 private:
  StateDirectory(FileSystem& files, std::string path, UniqueFd lock)
      : files_(files), path_(std::move(path)), lock_(std::move(lock)) {}
  std::string FileOf(TaskId task, absl::string_view ending) const;

  FileSystem& files_;
  const std::string path_;
  const UniqueFd lock_;
};

}  // namespace cohort
