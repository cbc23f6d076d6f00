#include "coordinator/members/flight_files.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/message_json.h"

namespace cohort {

namespace {

// Reads one flight file.
absl::StatusOr<proto::GroupFlight> ReadFlight(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path));
  proto::GroupFlight flight;
  if (const absl::Status read = MessageFromJson(text, flight); !read.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a flight record of a worker: ", read.message()));
  }
  // Any JSON object parses as a message, perhaps an empty one, so the fields that every record has
  // are checked.
  if (flight.rank() >= flight.size() || flight.tasks_size() != static_cast<int>(flight.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": is not a flight record of a worker: it names no rank, or not the tasks of all; give "
        "files that a worker named in its log line flight_record"));
  }
  return flight;
}

}  // namespace

absl::StatusOr<proto::AskFlightRecordsResponse> ReadFlightFiles(
    FileSystem& files, const std::vector<std::string>& paths, int calls_max) {
  std::map<uint32_t, proto::WorkerFlightRecord> workers;  // records by worker index
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(proto::GroupFlight flight, ReadFlight(files, path));
    auto& operations = *flight.mutable_operations();
    // Calls are in order of time, so the oldest ones are dropped from the front.
    if (operations.size() > calls_max) operations.DeleteSubrange(0, operations.size() - calls_max);
    const proto::TaskRef& task = flight.tasks(static_cast<int>(flight.rank()));
    proto::WorkerFlightRecord& worker = workers[task.index()];
    *worker.mutable_task() = task;
    *worker.add_groups() = std::move(flight);
  }
  proto::AskFlightRecordsResponse records;
  for (auto& [index, worker] : workers) *records.add_workers() = std::move(worker);
  return records;
}

}  // namespace cohort
