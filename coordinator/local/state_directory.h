#pragma once

// The state directory: what a coordinator with local tasks keeps on disk, so that the next
// coordinator finds the tasks that this one has left. Its files:
//
//   coordinator.lock       held by the living coordinator, with its process number
//   coordinator.address    where the coordinator serves operators (ctl_command.h)
//   ROLE-INDEX.process     the identity of a task's process, and how the process was started
//   ROLE-INDEX.address     the address of the task, which writes this file once it listens
//   ROLE-INDEX.grant       what a home of variables has granted, for its next process
//   ROLE-INDEX.log         stdout and stderr of the task
//   cohort-worker-INDEX-TIME.flight.json  calls of a group that has failed (--flight_dir)
//
// If the coordinator's process ends, in whatever way, the system frees the lock.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/cluster/cluster_spec.h"
#include "coordinator/local/process_id.h"

namespace cohort {

// The locked state directory of one coordinator. Thread-safe.
class StateDirectory {
 public:
  struct Record {
    ProcessId process;
    std::string program;
    // The program arguments that must be equal for a process to be adopted (LocalCluster).
    std::vector<std::string> arguments;
  };

  // Opens and locks the directory, and creates it if it does not exist. Errors: FAILED_PRECONDITION
  // of class CONFIGURATION naming the process of another coordinator that uses the directory; the
  // system's error with class CONFIGURATION otherwise.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(FileSystem& files,
                                                              const std::string& path);

  const std::string& path() const { return path_; }
  std::string AddressFile(TaskId task) const { return FileOf(task, ".address"); }
  // Returns the path of a task's grant file. It is kept when the task's process ends, because the
  // task's next process reads it.
  std::string GrantFile(TaskId task) const { return FileOf(task, ".grant"); }
  std::string LogFile(TaskId task) const { return FileOf(task, ".log"); }

  absl::Status Write(TaskId task, const Record& record);
  // Removes the record and the address file of a task whose process has ended.
  absl::Status Remove(TaskId task);
  // Reads the records of all tasks in the directory. Errors: FAILED_PRECONDITION of class
  // CONFIGURATION naming a damaged file; those of the file system.
  absl::StatusOr<std::map<TaskId, Record>> Read();

 private:
  StateDirectory(FileSystem& files, std::string path, std::unique_ptr<FileLock> lock)
      : files_(files), path_(std::move(path)), lock_(std::move(lock)) {}
  std::string FileOf(TaskId task, absl::string_view ending) const;

  FileSystem& files_;
  const std::string path_;
  const std::unique_ptr<FileLock> lock_;
};

}  // namespace cohort
