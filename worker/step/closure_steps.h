#pragma once

// A closure of several steps on its worker: one run (closure_run.h) for each, under the id, step
// and place in line that a closure of its own would have. So whatever a step leaves behind, on this
// worker, on others and on parameter servers, is what a closure of one step leaves.
//
// A step begins when the one before has ended well. Of a gang it is begun one step earlier: it
// reads its batch, and the gangs' line (gang_line.h) lets it go on.
//
// The answer comes when all that was begun has ended: what all steps fetch, one after another; or,
// when one has failed, what those before it fetch, and its error.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "worker/step/closure_run.h"

namespace cohort {

// Errors: INVALID_ARGUMENT for later steps that cannot be: they have positions in a split's data
// set, and of rounds only those of gangs follow one another.
absl::Status CheckSteps(const proto::RunClosureRequest& request);

// Thread-safe. Always owned by a shared_ptr: its runs hold it.
class ClosureSteps : public std::enable_shared_from_this<ClosureSteps> {
 public:
  ClosureSteps(std::shared_ptr<ClosureParts> parts, std::shared_ptr<const WorkerProgram> program,
               ClosureRun::Request request, ClosureRun::Replied reply);

  // Starts the steps. Called once. Errors in the reply: those of the first step that has failed,
  // like ClosureRun's, or in the answer if steps before it have ended well.
  void Start(ClosureInput input);

 private:
  using Response = Envelope<proto::RunClosureResponse>;
  using Answer = absl::StatusOr<Response>;

  void Begin(size_t step);
  ClosureRun::Request RequestOf(size_t step) const;
  void Ended(size_t step, Answer answer);
  // Joins the answers of all steps, or of those before one that has failed.
  static Answer JoinAnswers(std::vector<std::optional<Answer>> answers);

  const std::shared_ptr<ClosureParts> parts_;           // shared with all closures
  const std::shared_ptr<const WorkerProgram> program_;  // shared with the runs
  const ClosureRun::Request request_;
  const size_t num_steps_;
  const size_t begun_ahead_;  // that of the step that runs
  const absl::Time deadline_;
  ClosureInput input_;  // constant after Start
  Mutex mutex_;
  size_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::optional<Answer>> answers_ ABSL_GUARDED_BY(mutex_);  // one per step
  ClosureRun::Replied reply_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
