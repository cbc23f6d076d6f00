#pragma once

// A closure of several steps on its worker. Each step is a run (closure_run.h) with the id, the
// step number and the turn that a separate closure would have. So this worker, other workers and
// parameter servers cannot tell the step from a closure of one step.
//
// A step begins when the step before has ended well. A gang's step begins one step earlier: it
// reads its batch while it waits for its turn (gang_line.h).
//
// The answer is sent when all begun steps have ended. It has the fetches of all steps, one after
// another. If a step has failed, the answer has the fetches of the steps before it, and the error.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "worker/step/closure_run.h"

namespace cohort {

// Checks that a closure may have several steps. Errors: INVALID_ARGUMENT if the closure has no
// split that gives each step its position, or if its steps are synchronous rounds and it is no
// gang.
absl::Status CheckSteps(const proto::RunClosureRequest& request);

// The steps of one closure. Thread-safe. Always owned by a shared_ptr, which the steps' runs hold.
class ClosureSteps : public std::enable_shared_from_this<ClosureSteps> {
 public:
  ClosureSteps(std::shared_ptr<ClosureParts> parts, std::shared_ptr<const WorkerProgram> program,
               ClosureRun::Request request, ClosureRun::Replied reply);

  // Starts the steps. Called once. Errors in the reply: those of ClosureRun, if the first step has
  // failed. If a later step has failed, its error is a part of the answer instead.
  void Start(ClosureInput input);

 private:
  using Response = Envelope<proto::RunClosureResponse>;
  using Answer = absl::StatusOr<Response>;

  void Begin(size_t step);
  ClosureRun::Request RequestOf(size_t step) const;
  void Ended(size_t step, Answer answer);
  // Joins the answers of all steps, up to the first step that has failed.
  static Answer JoinAnswers(std::vector<std::optional<Answer>> answers);

  const std::shared_ptr<ClosureParts> parts_;  // parts of the worker, shared with all closures
  // Program of all steps, shared with the runs.
  const std::shared_ptr<const WorkerProgram> program_;
  const ClosureRun::Request request_;
  const size_t num_steps_;
  const size_t begun_ahead_;  // number of later steps that begin while one step runs
  const absl::Time deadline_;
  ClosureInput input_;  // input of the first step; constant after Start
  Mutex mutex_;
  size_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  // Answers of the steps, one per step.
  std::vector<std::optional<Answer>> answers_ ABSL_GUARDED_BY(mutex_);
  ClosureRun::Replied reply_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
