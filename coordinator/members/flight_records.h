#pragma once

// The flight records that the workers of a group keep of their collective calls, from which an
// operator sees why a training step hangs. Either all workers are asked, or flight files are read,
// in which workers keep the calls of aborted groups (worker/collective/flight_recorder.h). The
// records of one group are shown side by side, call by call.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/cluster.h"
#include "proto/ctl.pb.h"

namespace cohort {

// Asks all workers of the job and replies with one entry per worker, by index. For a worker that
// does not serve, or does not answer within two seconds, the entry has the reason. Has no errors.
void AskFlightRecords(const Cluster& cluster, const proto::AskFlightRecordsRequest& request,
                      TypedReply<proto::AskFlightRecordsResponse> reply);

// Reads flight files and returns the newest `calls_max` calls of each, grouped by worker. Errors:
// INVALID_ARGUMENT naming a file that is not a flight file, and those of ReadFile.
absl::StatusOr<proto::AskFlightRecordsResponse> ReadFlightFiles(
    FileSystem& files, const std::vector<std::string>& paths, int calls_max);

// Texts for a rank whose worker is missing from the records.
inline constexpr char kNoWorkerOfTheJob[] = "is not a worker of the job";
inline constexpr char kNoFileOfIt[] = "has no file here";

// Returns the records as text for people. For each group the text has the state of each rank, a
// line per call, and which ranks wait for which in the oldest call under way or, if there is none,
// in the oldest failed call. `absent` describes missing ranks: kNoWorkerOfTheJob or kNoFileOfIt.
std::string FlightText(const proto::AskFlightRecordsResponse& records, absl::string_view absent);

}  // namespace cohort
