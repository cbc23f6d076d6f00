#pragma once

// The records that the workers' groups keep of their calls, for the question why a step stands: all
// workers are asked, and their records of one group are laid side by side, call by call.

#include <string>

#include "absl/strings/string_view.h"
#include "common/wire/typed_call.h"
#include "coordinator/cluster/cluster.h"
#include "proto/ctl.pb.h"

namespace cohort {

// Replies with one answer for each worker of the job, by index; for a worker that does not answer
// within two seconds, or is away, with the reason. Has no errors.
void AskFlightRecords(const Cluster& cluster, const proto::AskFlightRecordsRequest& request,
                      TypedReply<proto::AskFlightRecordsResponse> reply);

// Descriptions of a rank whose worker is not in the records.
inline constexpr char kNoWorkerOfTheJob[] = "is not a worker of the job";
inline constexpr char kNoFileOfIt[] = "has no file here";

// Returns text for people: for each group where each rank is, a line for each call, and who waits
// for whom in the oldest call that is under way, or did in the oldest that has failed. `absent`:
// one of the above.
std::string FlightText(const proto::AskFlightRecordsResponse& records, absl::string_view absent);

}  // namespace cohort
