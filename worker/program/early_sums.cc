#include "worker/program/early_sums.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {

// Receives the outputs of one replica during its run. Lives on the replica's strand.
class EarlySums::Taker final : public OutputTaker {
 public:
  Taker(EarlySums& sums, size_t replica) : sums_(sums), replica_(replica) {}

  absl::Status Take(size_t output, const Tensor& value) override {
    if (!sums_.Has(output)) return absl::OkStatus();
    // If the group has ended, no sum can be made any more, so the replica's run ends early with the
    // group's error.
    if (absl::Status ended = sums_.status(); !ended.ok()) return Told(std::move(ended));
    RETURN_IF_ERROR(sums_.Add(replica_, output, value));
    return Told(sums_.status());
  }
  bool relayed() const { return relayed_; }

 private:
  absl::Status Told(absl::Status status) {
    relayed_ = !status.ok();
    return status;
  }

  EarlySums& sums_;
  const size_t replica_;
  bool relayed_ = false;
};

absl::StatusOr<std::unique_ptr<EarlySums>> EarlySums::Make(
    std::shared_ptr<const WorkerProgram> program, const std::shared_ptr<GangGroup>& group,
    Options options) {
  if (!program->communication->overlap) return nullptr;
  std::vector<int> items(program->outputs.size(), -1);
  std::vector<SummandType> summands;
  for (size_t i = 0; i < items.size(); ++i) {
    // An output of unknown size is not summed early, because buckets are planned before the run.
    const OutputSink& sink = program->outputs[i];
    if (sink.dtype == DType::kUndefined || IsGathered(sink.join)) continue;
    items[i] = static_cast<int>(summands.size());
    const bool gradient = sink.kind == OutputSink::Kind::kPush;
    summands.push_back({sink.output, sink.dtype, sink.shape, gradient});
  }
  if (summands.empty()) return nullptr;
  ASSIGN_OR_RETURN(std::shared_ptr<GroupSum> sum,
                   GroupSum::Make(group, *program->communication, std::move(summands)));
  return std::unique_ptr<EarlySums>(
      new EarlySums(std::move(program), std::move(sum), std::move(items), std::move(options)));
}

EarlySums::EarlySums(std::shared_ptr<const WorkerProgram> program, std::shared_ptr<GroupSum> sum,
                     std::vector<int> items, Options options)
    : program_(std::move(program)),
      sum_(std::move(sum)),
      items_(std::move(items)),
      options_(std::move(options)),
      missing_(items_.size()) {
  const size_t replicas = options_.examples.size();
  for (size_t replica = 0; replica < replicas; ++replica) {
    takers_.push_back(std::make_unique<Taker>(*this, replica));
  }
  values_.assign(items_.size(), std::vector<Tensor>(replicas));
  for (auto& missing : missing_) missing = replicas;
}

EarlySums::~EarlySums() = default;

OutputTaker& EarlySums::TakerOf(size_t replica) { return *takers_[replica]; }

bool EarlySums::WasRelayed(size_t replica) const { return takers_[replica]->relayed(); }

absl::Status EarlySums::Add(size_t replica, size_t output, const Tensor& value) {
  const OutputSink& sink = program_->outputs[output];
  const auto item = static_cast<size_t>(items_[output]);
  // The value's type is checked because a value of another size would be written outside the bytes
  // that the bucket reserves for this output.
  if (value.dtype() != sink.dtype || value.shape() != sink.shape) {
    return absl::InvalidArgumentError(absl::StrCat("the program computed ", value.TypeString(),
                                                   " for output '", sink.output, "', which is ",
                                                   DTypeName(sink.dtype), sink.shape.ToString()));
  }
  RETURN_IF_ERROR(HandOver(replica, output, value));
  // The atomic counter orders memory: the last replica sees the values that the other replicas
  // wrote.
  if (missing_[item].fetch_sub(1) > 1) return absl::OkStatus();
  if (IsNeutral(output)) {
    sum_->PlaceNeutral(item);
  } else {
    // JoinReplicas() writes the sum over the first replica's value, which lies in the bucket.
    RETURN_IF_ERROR(JoinReplicas(sink.join, std::move(values_[item])).status());
  }
  sum_->Ready(item).IgnoreError();  // the next Take() returns the error that has ended the group
  return absl::OkStatus();
}

bool EarlySums::IsNeutral(size_t output) const {
  return program_->outputs[output].join == JoinRule::kFirst ? !options_.first : !options_.counts;
}

absl::Status EarlySums::HandOver(size_t replica, size_t output, const Tensor& value) {
  if (IsNeutral(output)) return absl::OkStatus();
  const OutputSink& sink = program_->outputs[output];
  const auto item = static_cast<size_t>(items_[output]);
  Tensor& own = values_[item][replica];
  // Rule kFirst keeps only the first replica's value, so the values of other replicas are not
  // copied.
  if (replica > 0 && sink.join == JoinRule::kFirst) {
    own = value;
    return absl::OkStatus();
  }
  const float weight = LeafWeight(sink.join, options_.examples[replica], options_.all_examples,
                                  options_.all_replicas);
  // The first replica's value is written into the bucket, the other replicas' values into memory of
  // the pool.
  own = replica == 0 ? sum_->Place(item)
                     : Tensor(value.dtype(), value.shape(),
                              options_.pool->Take(std::max<size_t>(value.num_bytes(), 1)), 0);
  return WeighInto(value, weight, own);
}

void EarlySums::Finish(GroupSum::Sums done) {
  sum_->Finish(
      [items = items_, done = std::move(done)](absl::StatusOr<std::vector<Tensor>> sums) mutable {
        if (!sums.ok()) return done(sums.status());
        std::vector<Tensor> by_output(items.size());
        for (size_t i = 0; i < items.size(); ++i) {
          if (items[i] >= 0) by_output[i] = std::move((*sums)[static_cast<size_t>(items[i])]);
        }
        done(std::move(by_output));
      });
}

}  // namespace cohort
