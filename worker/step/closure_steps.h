#pragma once

// A closure of several steps on its worker. Each step is a run (closure_run.h) with the id, the
// step number and the place in line that a separate closure would have. So every trace of a step,
// on this worker, on other workers and on parameter servers, is that of a closure of one step.
//
// A step begins when the step before has ended well. A gang's step begins one step earlier: it
// reads its batch while the gangs' line (gang_line.h) makes it wait.
//
// The answer is sent when all begun steps have ended. It has the fetches of all steps, one after
// another. If a step has failed, it has the fetches of the steps before, and the error.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "worker/step/closure_run.h"

namespace cohort {

// Checks the later steps of a closure. Errors: INVALID_ARGUMENT if the closure has no split that
// gives each step its position, or if its steps are several rounds that are not gangs.
absl::Status CheckSteps(const proto::RunClosureRequest& request);

// The steps of one closure. Thread-safe. Always owned by a shared_ptr: its runs hold it.
class ClosureSteps : public std::enable_shared_from_this<ClosureSteps> {
 public:
  ClosureSteps(std::shared_ptr<ClosureParts> parts, std::shared_ptr<const WorkerProgram> program,
               ClosureRun::Request request, ClosureRun::Replied reply);

  // Starts the steps. Called once. Errors in the reply: those of the first step that failed, like
  // ClosureRun's. If steps before it have ended well, the error is part of the answer instead.
  void Start(ClosureInput input);

 private:
  using Response = Envelope<proto::RunClosureResponse>;
  using Answer = absl::StatusOr<Response>;

  void Begin(size_t step);
  ClosureRun::Request RequestOf(size_t step) const;
  void Ended(size_t step, Answer answer);
  // Joins the answers of all steps, or of the steps before one that has failed.
  static Answer JoinAnswers(std::vector<std::optional<Answer>> answers);

  const std::shared_ptr<ClosureParts> parts_;  // parts of the worker, shared with all closures
  // Program of all steps, shared with the runs.
  const std::shared_ptr<const WorkerProgram> program_;
  const ClosureRun::Request request_;
  const size_t num_steps_;
  const size_t begun_ahead_;  // number of steps that begin before the running step has ended
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
