#pragma once

// The coordinator's service for operators, which they call with `coordinator ctl`. It shows the
// members and the state of the job, and adds and removes workers (proto/ctl.proto).

#include <memory>
#include <string>

#include "common/wire/transport.h"
#include "common/wire/typed_call.h"
#include "coordinator/members/worker_changes.h"
#include "coordinator/schedule/scheduler.h"
#include "proto/ctl.pb.h"

namespace cohort {

// The parts of the coordinator that the service for operators shows and changes. The service's
// handlers keep copies of these pointers.
struct CtlParts {
  std::string job;
  std::shared_ptr<Cluster> cluster;
  std::shared_ptr<Scheduler> scheduler;
  std::shared_ptr<WorkerChanges> changes;
};

// Makes the service for operators. Its methods AddWorker and RemoveWorker answer with the errors of
// WorkerChanges.
Service MakeCtlService(const CtlParts& parts);

// Returns those parts of the job's status that the coordinator knows without asking other tasks.
proto::GetJobStatusResponse JobStatus(const CtlParts& parts);
// Replies with the job's status. Includes counters of the parameter servers, if all of these answer
// within a second.
void AnswerJobStatus(const CtlParts& parts, TypedReply<proto::GetJobStatusResponse> reply);

}  // namespace cohort
