#pragma once

// A closure of several steps, as its worker runs it. Each step is a ClosureRun with the closure id,
// the step number and the turn that the step would have as a closure of its own. So neither this
// worker, nor other workers, nor parameter servers can tell a step from a closure of one step.
//
// A step begins when the step before it has ended well. In a gang, a step begins one step earlier:
// it reads its batch while it waits for its turn (gang_line.h).
//
// The answer is sent when all steps that have begun have ended. It holds the fetches of all steps,
// one step after the other. If a step has failed, the answer holds the fetches of the steps before
// it and its error.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "worker/step/closure_run.h"

namespace cohort {

// Checks that a closure of several steps can run on one worker. Errors: INVALID_ARGUMENT if the
// closure reads no split (only a split gives each step its position in the data), or if its steps
// are synchronous rounds and the closure is not a gang.
absl::Status CheckSteps(const proto::RunClosureRequest& request);

// The run of all steps of one closure. Thread-safe. Always owned by a shared_ptr, which the runs of
// the steps hold.
class ClosureSteps : public std::enable_shared_from_this<ClosureSteps> {
 public:
  ClosureSteps(std::shared_ptr<ClosureParts> parts, std::shared_ptr<const WorkerProgram> program,
               ClosureRun::Request request, ClosureRun::Replied reply);

  // Starts the steps. Called once. If the first step fails, the reply is its error, which is one of
  // ClosureRun's. If a later step fails, the reply is OK and holds the error as proto `failure`.
  void Start(ClosureInput input);

 private:
  using Response = Envelope<proto::RunClosureResponse>;
  using Answer = absl::StatusOr<Response>;

  void Begin(size_t step);
  ClosureRun::Request RequestOf(size_t step) const;
  void Ended(size_t step, Answer answer);
  // Joins the answers of the steps up to the first step that has failed.
  static Answer JoinAnswers(std::vector<std::optional<Answer>> answers);

  const std::shared_ptr<ClosureParts> parts_;  // objects of the worker; shared with all closures
  // The program of all steps; shared with their runs.
  const std::shared_ptr<const WorkerProgram> program_;
  const ClosureRun::Request request_;
  const size_t num_steps_;
  // Number of further steps that have begun while a step runs: 1 in a gang, else 0.
  const size_t begun_ahead_;
  const absl::Time deadline_;
  ClosureInput input_;  // input of the first step; constant after Start()
  Mutex mutex_;
  size_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  // The answer of each step; empty for a step that has not ended.
  std::vector<std::optional<Answer>> answers_ ABSL_GUARDED_BY(mutex_);
  ClosureRun::Replied reply_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
