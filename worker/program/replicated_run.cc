#include "worker/program/replicated_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "worker/gang/group_gather.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {

std::vector<BatchPart> SplitBatch(int64_t examples, int64_t replicas) {
  std::vector<BatchPart> parts;
  int64_t begin = 0;
  for (int64_t replica = 0; replica < std::min(examples, replicas); ++replica) {
    // The first `examples % replicas` replicas get one example more than the others.
    const int64_t count = examples / replicas + (replica < examples % replicas ? 1 : 0);
    parts.push_back({begin, count});
    begin += count;
  }
  return parts;
}

ReplicatedRun::ReplicatedRun(std::shared_ptr<const WorkerProgram> program,
                             std::shared_ptr<ReplicaStrands> strands,
                             std::shared_ptr<GangGroup> group, Values values,
                             const RunContext& context, Done done)
    : program_(std::move(program)),
      strands_(std::move(strands)),
      group_(std::move(group)),
      inputs_(std::move(values.inputs)),
      before_(std::move(values.before)),
      context_(context),
      done_(std::move(done)) {}

// Returns true if the input has a row for each example of the batch: such inputs are divided over
// the replicas.
bool ReplicatedRun::IsOfBatch(size_t input) const {
  const InputSource::Kind kind = program_->inputs[input].kind;
  return kind == InputSource::Kind::kBatch || kind == InputSource::Kind::kPositions;
}

// Divides the batch over the replicas of all workers and keeps the parts of this worker's replicas.
// Errors: INVALID_ARGUMENT if the components of the batch have no axis 0 or differ in its length,
// and those of CheckReplicas().
absl::Status ReplicatedRun::ShareOut() {
  const auto here = static_cast<int64_t>(program_->runners.size());
  const int64_t replicas = group_ == nullptr ? here : here * group_->size();
  const int64_t first = group_ == nullptr ? 0 : here * group_->rank();
  RETURN_IF_ERROR(CheckReplicas(replicas));
  // The batch is not divided if there is one replica or if the program reads no batch. Each replica
  // then counts as one example.
  if (replicas == 1 || program_->num_components == 0) {
    examples_ = replicas;
    TakeParts(SplitBatch(replicas, replicas), first);
    return absl::OkStatus();
  }
  by_parts_ = true;
  examples_ = -1;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!IsOfBatch(i)) continue;
    const Shape& shape = inputs_[i].shape();
    // The first component of the batch gives the number of examples; all others must have as many
    // rows.
    if (shape.rank() > 0 && examples_ < 0) examples_ = shape.dim(0);
    if (shape.rank() > 0 && shape.dim(0) == examples_ && examples_ > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        replicas, " replicas share out a batch along axis 0, and a component of it is ",
        inputs_[i].TypeString(), examples_ > 0 ? absl::StrCat(" beside ", examples_, " rows") : "",
        ": batch the data set"));
  }
  TakeParts(SplitBatch(examples_, replicas), first);
  return absl::OkStatus();
}

// Checks that each variable and argument with one row per replica has a row for each of `replicas`
// replicas. Errors: INVALID_ARGUMENT naming a variable or argument with too few rows.
absl::Status ReplicatedRun::CheckReplicas(int64_t replicas) const {
  for (const TransferPlan* plan : {&program_->pulls, &program_->pushes, &program_->assigns}) {
    for (const VariableType& variable : plan->variables) {
      if (variable.replicas == 0 || replicas <= variable.replicas) continue;
      return absl::InvalidArgumentError(absl::StrCat("variable ", variable.name, " has values of ",
                                                     variable.replicas, " replicas, and ", replicas,
                                                     " run: make it for as many"));
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!program_->inputs[i].of_replica) continue;
    const Shape& shape = inputs_[i].shape();
    if (shape.rank() > 0 && shape.dim(0) >= replicas) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "argument ", program_->inputs[i].index, " is ", inputs_[i].TypeString(), ", and ", replicas,
        " replicas run, each of which gets a row: give it one for each"));
  }
  return absl::OkStatus();
}

void ReplicatedRun::TakeParts(const std::vector<BatchPart>& all, int64_t first) {
  // With fewer examples than replicas there are fewer parts than replicas. A worker without a part
  // takes the last one.
  all_parts_ = static_cast<int64_t>(all.size());
  has_part_ = first < all_parts_;
  first_part_ = std::min(first, all_parts_ - 1);
  const auto here = static_cast<int64_t>(program_->runners.size());
  parts_.assign(all.begin() + first_part_, all.begin() + std::min(first_part_ + here, all_parts_));
}

void ReplicatedRun::Start() {
  // The whole batch is checked before any replica starts, because a replica must not wait at a
  // meeting for another replica that cannot start.
  if (absl::Status status = ShareOut(); !status.ok()) return done_(std::move(status));
  if (absl::Status status = PrepareSums(); !status.ok()) return done_(std::move(status));
  OpenMeeting();
  results_.resize(parts_.size(), absl::UnknownError("not run"));
  {
    MutexLock lock(mutex_);
    left_ = parts_.size();
  }
  for (size_t replica = 1; replica < parts_.size(); ++replica) {
    strands_->Of(replica).Post([self = shared_from_this(), replica] { self->RunReplica(replica); });
  }
  RunReplica(0);
}

void ReplicatedRun::OpenMeeting() {
  if (parts_.size() == 1 && group_ == nullptr) return;
  std::vector<double> shares;
  for (const BatchPart& part : parts_) {
    // A replica's share is its number of examples divided by the mean number of all replicas.
    shares.push_back(by_parts_ ? static_cast<double>(part.count) * static_cast<double>(all_parts_) /
                                     static_cast<double>(examples_)
                               : 1);
  }
  std::optional<ReplicaMeeting::OtherWorkers> others;
  if (group_ != nullptr) {
    others = ReplicaMeeting::OtherWorkers{
        {group_, *program_->communication, /*neutral=*/!has_part_},
        all_parts_,
        [strands = strands_](Task task) { strands->Of(0).Post(std::move(task)); }};
  }
  meeting_ = std::make_unique<ReplicaMeeting>(shares, strands_->pool(), std::move(others));
}

// Prepares the sums over the group that can begin during the computation.
absl::Status ReplicatedRun::PrepareSums() {
  if (group_ == nullptr) return absl::OkStatus();
  EarlySums::Options options;
  for (const BatchPart& part : parts_) options.examples.push_back(part.count);
  options.all_examples = examples_;
  options.all_replicas = all_parts_;
  options.counts = has_part_;
  options.first = group_->rank() == 0;
  options.pool = strands_->pool();
  ASSIGN_OR_RETURN(early_, EarlySums::Make(program_, group_, std::move(options)));
  return absl::OkStatus();
}

void ReplicatedRun::RunReplica(size_t replica) {
  const BatchPart& part = parts_[replica];
  // The copied tensors share their memory with `inputs_`; a replica's rows of the batch are views
  // of the whole batch.
  std::vector<Tensor> inputs = inputs_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (by_parts_ && IsOfBatch(i)) inputs[i] = inputs[i].Rows(part.begin, part.count);
    const InputSource& source = program_->inputs[i];
    if (source.context == proto::REPLICA_ID) inputs[i] = Tensor::Scalar(NumberOf(replica));
    const bool rows_of_variable = source.kind == InputSource::Kind::kVariable &&
                                  program_->pulls.variables[source.index].replicas > 0;
    if (rows_of_variable || source.of_replica) {
      inputs[i] = RowOfReplica(inputs[i], NumberOf(replica));
    }
  }
  RunContext context = context_;
  // Examples are numbered over the whole batch, so that the results of random operators do not
  // depend on the division of the batch.
  if (by_parts_) context.first_example += part.begin;
  if (meeting_ != nullptr) context.exchange = &meeting_->Seat(replica);
  if (early_ != nullptr) context.taker = &early_->TakerOf(replica);
  program_->runners[replica]->Start(
      inputs, context,
      [strands = strands_, replica](Task task) { strands->Of(replica).Post(std::move(task)); },
      [self = shared_from_this(), replica](absl::StatusOr<std::vector<Tensor>> outputs) {
        self->EndReplica(replica, std::move(outputs));
      });
}

void ReplicatedRun::EndReplica(size_t replica, absl::StatusOr<std::vector<Tensor>> outputs) {
  // Each value is multiplied by its replica's weight before values are added up, so that the sum is
  // the weighted mean.
  if (outputs.ok()) outputs = WeighSums(replica, *std::move(outputs));
  // An error of the group already names its source. Only other errors get the name of this replica.
  const bool relayed = early_ != nullptr && early_->WasRelayed(replica);
  if (all_parts_ > 1 && !outputs.ok() && !relayed) {
    outputs = Annotate(outputs.status(), absl::StrCat("replica ", NumberOf(replica)));
  }
  // Replicas that wait at a meeting get this replica's error, because this replica will not arrive.
  if (meeting_ != nullptr && !outputs.ok()) meeting_->Leave(replica, outputs.status());
  results_[replica] = std::move(outputs);
  {
    MutexLock lock(mutex_);
    if (--left_ > 0) return;
  }
  // Gives the memory of pulled values back to its pool, for the next closure's pull.
  inputs_.clear();
  absl::StatusOr<Outputs> joined = Join();
  // `done_` is emptied by the call, because otherwise this run would keep its caller alive.
  if (!joined.ok()) return std::exchange(done_, nullptr)(joined.status());
  if (group_ != nullptr) return SumOverWorkers(*std::move(joined));
  FinishJoined(*std::move(joined));
}

// Sums over the workers the outputs that are not summed early. On every member of the group, these
// sums start after all early sums, so all members start their collective calls in one order.
void ReplicatedRun::SumOverWorkers(Outputs outputs) {
  std::vector<GroupSummand> summands;
  std::vector<size_t> late;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (IsEarly(i)) continue;
    const OutputSink& sink = program_->outputs[i];
    // Outputs with one value per replica are gathered after the sums, by GatherOverWorkers().
    if (IsGathered(sink.join)) {
      gathers_.push_back(i);
      continue;
    }
    // Rule kFirst keeps the value of the first replica of rank 0, so all other ranks add neutral
    // elements.
    const bool neutral = sink.join == JoinRule::kFirst ? group_->rank() != 0 : !has_part_;
    summands.push_back({sink.output, std::move(outputs[i][0]), neutral,
                        sink.kind == OutputSink::Kind::kPush && IsSum(sink.join)});
    late.push_back(i);
  }
  const size_t count = outputs.size();
  for (const size_t output : gathers_) fetched_.push_back(std::move(outputs[output]));
  SumOverGroup(group_, *program_->communication, summands,
               [self = shared_from_this(), late = std::move(late),
                count](absl::StatusOr<std::vector<Tensor>> sums) {
                 if (!sums.ok()) return self->TakeSums(sums.status());
                 std::vector<Tensor> by_output(count);
                 for (size_t i = 0; i < late.size(); ++i) {
                   by_output[late[i]] = std::move((*sums)[i]);
                 }
                 self->AwaitEarlySums(std::move(by_output));
               });
}

void ReplicatedRun::AwaitEarlySums(std::vector<Tensor> sums) {
  if (early_ == nullptr) return TakeSums(std::move(sums));
  early_->Finish([self = shared_from_this(),
                  sums = std::move(sums)](absl::StatusOr<std::vector<Tensor>> early) mutable {
    if (!early.ok()) return self->TakeSums(early.status());
    for (size_t i = 0; i < sums.size(); ++i) {
      if (self->IsEarly(i)) sums[i] = std::move((*early)[i]);
    }
    self->TakeSums(std::move(sums));
  });
}

// Takes the sums over the group and continues on the strand of replica 0, because the caller may be
// a thread of the communicator, which must not compute.
void ReplicatedRun::TakeSums(absl::StatusOr<std::vector<Tensor>> sums) {
  strands_->Of(0).Post([self = shared_from_this(), sums = std::move(sums)]() mutable {
    if (!sums.ok()) return std::exchange(self->done_, nullptr)(sums.status());
    Outputs joined;
    for (Tensor& sum : *sums) joined.push_back({std::move(sum)});
    self->GatherOverWorkers(std::move(joined), 0);
  });
}

// Gathers from all workers the outputs with one value per replica, number `i` of `gathers_` and
// those after it. The outputs are gathered one after another, so that all members make their
// collective calls in one order. Every member gets the values of all replicas.
void ReplicatedRun::GatherOverWorkers(Outputs joined, size_t i) {
  if (i == gathers_.size()) return FinishJoined(std::move(joined));
  const OutputSink& sink = program_->outputs[gathers_[i]];
  GroupGather gather;
  gather.name = absl::StrCat("fetch ", sink.output);
  // A worker without a part of the batch has computed values that another worker gives too, so it
  // gives none.
  if (has_part_) gather.own = std::move(fetched_[i]);
  gather.most = program_->runners.size();
  gather.timeout = program_->communication->timeout;
  GatherOverGroup(group_, std::move(gather),
                  [self = shared_from_this(), joined = std::move(joined),
                   i](absl::StatusOr<std::vector<Tensor>> all) mutable {
                    self->TakeGathered(std::move(joined), i, std::move(all));
                  });
}

void ReplicatedRun::TakeGathered(Outputs joined, size_t i,
                                 absl::StatusOr<std::vector<Tensor>> all) {
  const size_t output = gathers_[i];
  if (all.ok()) all = JoinReplicas(program_->outputs[output].join, *std::move(all));
  if (!all.ok()) return std::exchange(done_, nullptr)(all.status());
  joined[output] = *std::move(all);
  GatherOverWorkers(std::move(joined), i + 1);
}

void ReplicatedRun::FinishJoined(Outputs outputs) {
  if (program_->joined_runner == nullptr) {
    return std::exchange(done_, nullptr)(std::move(outputs));
  }
  // The join model, a graph that computes new values from joined outputs, runs on the strand of
  // replica 0, because a thread of the communicator must not compute.
  strands_->Of(0).Post([self = shared_from_this(), outputs = std::move(outputs)]() mutable {
    self->RunJoined(std::move(outputs));
  });
}

// Multiplies each output of a replica that is to be summed over replicas by the replica's weight in
// the sum. Leaves out the outputs that were summed early or are on a GPU.
absl::StatusOr<std::vector<Tensor>> ReplicatedRun::WeighSums(size_t replica,
                                                             std::vector<Tensor> outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const JoinRule rule = program_->outputs[i].join;
    if (IsEarly(i)) outputs[i] = Tensor();  // returns the output's memory to its pool
    if (all_parts_ == 1 || !IsSum(rule) || IsEarly(i) || IsOnDevice(outputs[i])) continue;
    const float weight = LeafWeight(rule, parts_[replica].count, examples_, all_parts_);
    ASSIGN_OR_RETURN(outputs[i], Weighted(outputs[i], weight, *strands_->pool()));
  }
  return outputs;
}

void ReplicatedRun::RunJoined(Outputs outputs) {
  // The inputs of the join model are outputs of the program, which its results replace.
  std::vector<Tensor> inputs;
  for (const size_t place : program_->joined_outputs) inputs.push_back(outputs[place][0]);
  absl::StatusOr<std::vector<Tensor>> replaced = program_->joined_runner->Run(inputs, context_);
  if (!replaced.ok()) return std::exchange(done_, nullptr)(replaced.status());
  for (size_t i = 0; i < replaced->size(); ++i) {
    outputs[program_->joined_outputs[i]][0] = std::move((*replaced)[i]);
  }
  std::exchange(done_, nullptr)(std::move(outputs));
}

// Returns the error of the run: the group's error at a meeting first, then a replica's own error,
// then an error that a replica got from the group.
absl::Status ReplicatedRun::ErrorOfReplicas() const {
  if (meeting_ != nullptr) RETURN_IF_ERROR(meeting_->GroupError());
  absl::Status relayed;
  for (size_t replica = 0; replica < results_.size(); ++replica) {
    // A replica that got its error from another replica is skipped, because the other replica has
    // the same error as its own.
    if (meeting_ != nullptr && meeting_->WasRelayed(replica)) continue;
    if (early_ != nullptr && early_->WasRelayed(replica)) {
      relayed.Update(results_[replica].status());
    } else {
      RETURN_IF_ERROR(results_[replica].status());
    }
  }
  return relayed;
}

absl::StatusOr<std::vector<Tensor>> ReplicatedRun::JoinOutput(size_t output,
                                                              std::vector<Tensor> values) const {
  const OutputSink& sink = program_->outputs[output];
  // A variable with one row per replica gets each replica's value in its row.
  if (sink.join != JoinRule::kReplicaRows) return JoinReplicas(sink.join, std::move(values));
  const bool push = sink.kind == OutputSink::Kind::kPush;
  const TransferPlan& plan = push ? program_->pushes : program_->assigns;
  const RowsHere here{first_part_, all_parts_, group_ == nullptr || group_->rank() == 0};
  std::vector<Tensor> rows;
  ASSIGN_OR_RETURN(rows.emplace_back(),
                   RowsOfReplicas(plan.variables[sink.index], here, before_[output], values));
  return rows;
}

// Returns the values that the replicas left on their GPUs for one output, each with the weight of
// its replica.
DeviceSummands ReplicatedRun::OnDevices(size_t output, std::vector<Tensor> values) const {
  DeviceSummands summands;
  summands.values = std::move(values);
  summands.stays = program_->outputs[output].stays;
  for (const BatchPart& part : parts_) {
    const JoinRule rule = program_->outputs[output].join;
    summands.weights.push_back(LeafWeight(rule, part.count, examples_, all_parts_));
  }
  return summands;
}

absl::StatusOr<ReplicatedRun::Outputs> ReplicatedRun::Join() {
  RETURN_IF_ERROR(ErrorOfReplicas());
  Outputs outputs(program_->outputs.size());
  std::vector<DeviceSummands> left;
  std::vector<size_t> left_outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (IsEarly(i)) continue;
    std::vector<Tensor> values;
    for (auto& result : results_) values.push_back(std::move((*result)[i]));
    // All replicas run one program, so the values of all are on GPUs if the first one is.
    if (IsOnDevice(values[0])) {
      left.push_back(OnDevices(i, std::move(values)));
      left_outputs.push_back(i);
      continue;
    }
    ASSIGN_OR_RETURN(outputs[i], JoinOutput(i, std::move(values)));
  }
  // All outputs on GPUs are summed by one call, so that one pack can hold parts of several
  // gradients.
  if (left.empty()) return outputs;
  ASSIGN_OR_RETURN(std::vector<Tensor> sums, program_->device_sums->Sum(left));
  for (size_t i = 0; i < sums.size(); ++i) outputs[left_outputs[i]] = {std::move(sums[i])};
  return outputs;
}

}  // namespace cohort
