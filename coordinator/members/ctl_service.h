#pragma once

// The coordinator's service for operators: the members of the job and its state, and workers in and
// out (proto/ctl.proto).

#include <memory>
#include <string>

#include "common/wire/transport.h"
#include "common/wire/typed_call.h"
#include "coordinator/members/worker_changes.h"
#include "coordinator/schedule/scheduler.h"
#include "proto/ctl.pb.h"

namespace cohort {

// The parts that the service speaks for; all shared with the coordinator, and kept by the service's
// handlers.
struct CtlParts {
  std::string job;
  std::shared_ptr<Cluster> cluster;
  std::shared_ptr<Scheduler> scheduler;
  std::shared_ptr<WorkerChanges> changes;
};

// Errors of AddWorker and RemoveWorker: those of WorkerChanges.
Service MakeCtlService(const CtlParts& parts);

// Returns what the coordinator knows by itself.
proto::GetJobStatusResponse JobStatus(const CtlParts& parts);
// Adds what the parameter servers count, if all of them answer soon.
void AnswerJobStatus(const CtlParts& parts, TypedReply<proto::GetJobStatusResponse> reply);

}  // namespace cohort
