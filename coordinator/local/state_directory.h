#pragma once

// The record of a local cluster, so that a coordinator that was started again finds the
// tasks of the one before:
//   coordinator.lock  held by the living coordinator, its process number in it
//   ROLE-INDEX.process  which process a task is and how it was started
//   ROLE-INDEX.address  written by the task once it listens
//   ROLE-INDEX.log      what it writes to stdout and stderr
//   cohort-worker-INDEX-TIME.flight.json  what calls of a group did that has failed (--flight_dir)
// The lock goes with its process, however that ends.

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

// Thread-safe.
class StateDirectory {
 public:
  struct Record {
    ProcessId process;
    std::string program;
    std::vector<std::string> arguments;  // those that must be equal to adopt the task
  };

  // Makes the directory where there is none. Errors: FAILED_PRECONDITION of class CONFIGURATION
  // when another coordinator has it, naming its process; the system's error otherwise.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(FileSystem& files,
                                                              const std::string& path);

  const std::string& path() const { return path_; }
  std::string AddressFile(TaskId task) const { return FileOf(task, ".address"); }
  // Stays when the task ends: its next start reads it.
  std::string GrantFile(TaskId task) const { return FileOf(task, ".grant"); }
  std::string LogFile(TaskId task) const { return FileOf(task, ".log"); }

  absl::Status Write(TaskId task, const Record& record);
  // Removes record and address: the task has ended.
  absl::Status Remove(TaskId task);
  // Reads all records. Errors: FAILED_PRECONDITION of class CONFIGURATION naming a file that is
  // damaged.
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
