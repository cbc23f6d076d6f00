#pragma once

// The flight records that the workers of a group keep of their collective calls. From them an
// operator sees why a training step hangs. The records come from all workers of the job, or from
// flight files, in which workers keep the calls of aborted groups
// (worker/collective/flight_recorder.h). The records of all ranks of a group are shown side by
// side, call by call.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/cluster.h"
#include "proto/ctl.pb.h"

namespace cohort {

// Asks all workers of the job for their flight records, and replies with one entry per worker, in
// the order of their indices. If a worker does not serve, or does not answer within two seconds,
// its entry says so. There are no errors.
void AskFlightRecords(const Cluster& cluster, const proto::AskFlightRecordsRequest& request,
                      TypedReply<proto::AskFlightRecordsResponse> reply);

// Reads flight files. Returns the newest `calls_max` calls of each file, grouped by worker. Errors:
// INVALID_ARGUMENT naming a file that is not a flight file; those of ReadFile.
absl::StatusOr<proto::AskFlightRecordsResponse> ReadFlightFiles(
    FileSystem& files, const std::vector<std::string>& paths, int calls_max);

// The texts about a rank whose worker is missing from the records.
inline constexpr char kNoWorkerOfTheJob[] = "is not a worker of the job";
inline constexpr char kNoFileOfIt[] = "has no file here";

// Returns flight records as text for people. For each group, the text has the state of each rank, a
// line per call, and a verdict: which ranks wait for which others in the oldest call under way or,
// if there is none, in the oldest failed call. `absent` is what is said of missing ranks:
// kNoWorkerOfTheJob or kNoFileOfIt.
std::string FlightText(const proto::AskFlightRecordsResponse& records, absl::string_view absent);

}  // namespace cohort
