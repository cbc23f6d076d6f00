#pragma once

// One closure on a worker, from its arrival to its reply. No thread waits:
//
//   Start --> next batch --+
//         \-> pulls -------+--> compute (compute strand) --> pushes, assigns --> reply
//
//   Start --> next batch --> rows that it names --> pulls --> compute ...
//
// The first drawing is the way of a program that pulls whole variables: the batch is read while the
// values are pulled. The second is that of a program whose batch names the rows to pull.
//
// A gang pulls when it has its turn (gang_line.h), and its turn ends with its pushes. Replicas
// compute on their own strands (replicated_run.h). In a gang of several workers, each worker runs a
// ClosureRun, and the workers sum their results during the computation and after it (group_sum.h).
// When the gang fails on one worker, it ends on all workers.
//
// The batches and pulls of the next closures run while a closure computes. The reply is sent when
// every push was acknowledged. The epoch is checked on arrival, before the computation and before
// the pushes, so closures of an earlier coordinator change nothing any more.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/task/task_service.h"
#include "common/wire/typed_call.h"
#include "common/wire/world.h"
#include "proto/worker.pb.h"
#include "worker/data/dataset.h"
#include "worker/data/element_stream.h"
#include "worker/gang/gang_answers.h"
#include "worker/gang/gang_line.h"
#include "worker/gang/group_sessions.h"
#include "worker/program/replicated_run.h"
#include "worker/program/worker_program.h"
#include "worker/ps_client/ps_client.h"

namespace cohort {

// Returns the time by which a closure that arrived at `now` must have ended: infinite if the
// request has no timeout.
absl::Time DeadlineOf(const proto::RunClosureRequest& request, absl::Time now);

// The objects of a worker that all its closures use. Every closure holds this struct, so the struct
// outlives its closures.
struct ClosureParts {
  ClosureParts(World its_world, std::shared_ptr<PsClient> client,
               ReplicaStrands::ExecutorOf compute_executor,
               std::shared_ptr<GroupSessions> its_groups)
      : world(its_world),
        ps_client(std::move(client)),
        compute(std::make_shared<ReplicaStrands>(std::move(compute_executor))),
        groups(std::move(its_groups)) {}

  World world;
  std::shared_ptr<TaskService> task_service;
  std::shared_ptr<PsClient> ps_client;
  // The strands on which replicas compute; shared with runs.
  const std::shared_ptr<ReplicaStrands> compute;
  GangLine gangs;
  GangAnswers gang_answers;
  // The groups in which gangs run; shared with the code that forms a group.
  const std::shared_ptr<GroupSessions> groups;
  // This worker's position among the workers of the job, counted from 0. Set by Attach.
  std::atomic<int64_t> worker_position{0};
};

// The source of a closure's batch: a stream, a data set, or neither for a closure without a batch.
struct ClosureInput {
  std::shared_ptr<ElementStream> stream;
  std::shared_ptr<const Dataset> dataset;  // the batch is the data set's element at `position`
  proto::IteratorPosition position;
};

// The run of one closure, or of one step of a closure of several steps. Thread-safe.
class ClosureRun : public std::enable_shared_from_this<ClosureRun> {
 public:
  using Request = Envelope<proto::RunClosureRequest>;
  using Replied = TypedReply<proto::RunClosureResponse>;

  ClosureRun(std::shared_ptr<ClosureParts> parts, std::shared_ptr<const WorkerProgram> program,
             Request request, Replied reply);

  // Starts the run. Called once. Errors in the reply: OUT_OF_RANGE (INPUT) at the end of the data;
  // those of the data set (INPUT), of PsClient, and of the program (APPLICATION);
  // FAILED_PRECONDITION (STALE) for an epoch that is over. Each error names the closure, the
  // attempt and the origin.
  void Start(ClosureInput input);

 private:
  void StartBatch(ClosureInput input);
  void TakeElement(Element element);
  void LookUpAndPull();
  // Starts the pulls; a gang first waits for its turn and for the other members of its group.
  // Called when the rows to pull are known.
  void AwaitTurn();
  void EndAtDeadline();
  void JoinGroup();
  absl::Status LookUp();
  void StartPulls();
  void PartReady(absl::Status status);
  bool IsGang() const { return header_.gang().generation() > 0; }
  void Compute();
  // Gives an error that concerns the batch the class INPUT and this worker's name. OK stays OK.
  absl::Status BatchError(const absl::Status& status) const;
  absl::Status CheckBatch() const;
  absl::StatusOr<std::vector<Tensor>> GatherInputs();
  std::vector<Tensor> RowsBefore() const;
  void OnComputed(absl::StatusOr<ReplicatedRun::Outputs> outputs);
  Tensor ContextTensor(proto::ContextValue value) const;
  void SendOutputs(ReplicatedRun::Outputs outputs);
  void Push(std::vector<Tensor> values, PsClient::PushDone done);
  absl::Status CheckOutput(const Tensor& value, const OutputSink& sink) const;
  size_t PushedRows(size_t variable) const;
  std::vector<uint64_t> PushVersions() const;
  TransferContext ContextOfTransfer() const;
  PushContext ContextOfPush() const;
  void Finish(absl::Status status);
  // Adds to an error what its ErrorDetail lacks: the class APPLICATION, this worker as origin, and
  // the closure's id and attempt.
  absl::Status Described(const absl::Status& status) const;

  // The worker's shared objects; they may outlive the WorkerService.
  const std::shared_ptr<ClosureParts> parts_;
  const std::shared_ptr<const WorkerProgram> program_;
  const proto::RunClosureRequest header_;
  const absl::Time deadline_;  // time after which no caller waits for the reply

  // Each field below is written by one part of the run (such as the batch or the pull) before this
  // part calls PartReady(), and read when all parts have called PartReady().
  Payload argument_bytes_;
  TimerId deadline_timer_;  // the timer that ends a gang at its deadline
  Element element_;
  // The data set of element_; null for a closure without a batch.
  std::shared_ptr<const Dataset> dataset_;
  proto::IteratorPosition position_;  // position of element_ in dataset_
  std::optional<proto::IteratorPosition> next_position_;
  PsClient::Rows rows_;  // for each variable of the pull plan: the rows to pull
  // Position tensors of the lookups, for graph inputs of kind kPositions.
  std::vector<Tensor> positions_;
  Pulled pulled_;
  // The group of a gang of several workers; null for any other closure.
  std::shared_ptr<GangGroup> group_;
  // The times at which the run started, had its batch, had its pulled values, began to compute, and
  // had computed.
  struct Marks {
    absl::Time start;
    absl::Time batch;
    absl::Time pulled;
    absl::Time compute;
    absl::Time computed;
  };
  Marks marks_;
  // Number of pushed slices whose round still needs pushes of other workers.
  std::atomic<uint64_t> open_rounds_{0};
  Envelope<proto::RunClosureResponse> response_;
  Replied reply_;

  Mutex mutex_;
  int parts_left_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
