#include "worker/data/index_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// The number of pass numbers that an endless repeat inside another repeat may use, so that each
// pass of the outer repeat has a range of its own.
constexpr uint64_t kEndlessStride = uint64_t{1} << 32;
// The bound of the pass number ("epoch") in a position; valid numbers are below.
constexpr int64_t kEpochsMax = int64_t{1} << 32;

// Returns INVALID_ARGUMENT naming a transform, its bad value and the remedy.
absl::Status Bad(absl::string_view transform, int64_t value, absl::string_view remedy) {
  return absl::InvalidArgumentError(
      absl::StrCat("transform ", transform, " has the value ", value, ": ", remedy));
}

}  // namespace

absl::StatusOr<IndexPlan::Stage> IndexPlan::MakeRepeat(int64_t times, int64_t input) {
  if (times < -1) return Bad("repeat", times, "use -1 for ever, or a count");
  Stage stage{Kind::kRepeat, input, 0, times, 0, nullptr};
  if (input == 0 || times == 0) {
    stage.output = 0;
  } else if (input == kEndless || times == kEndless) {
    stage.output = kEndless;
  } else if (__builtin_mul_overflow(input, times, &stage.output)) {
    return Bad("repeat", times, absl::StrCat("times ", input, " elements is out of range"));
  }
  return stage;
}

absl::StatusOr<IndexPlan::Stage> IndexPlan::MakeShuffle(const proto::Shuffle& shuffle,
                                                        int64_t input) {
  if (input == kEndless) {
    return absl::InvalidArgumentError("transform shuffle reads endless data: put it before repeat");
  }
  RETURN_IF_ERROR(CheckShuffle(shuffle, input));
  return Stage{Kind::kShuffle, input, input, 0, 0, std::make_shared<ShuffleOrders>(shuffle, input)};
}

absl::StatusOr<IndexPlan::Stage> IndexPlan::MakeStage(const proto::DatasetTransform& transform,
                                                      int64_t input) {
  const bool endless = input == kEndless;
  switch (transform.kind_case()) {
    case proto::DatasetTransform::kSkip: {
      const int64_t count = transform.skip();
      if (count < 0) return Bad("skip", count, "it must not be negative");
      if (endless && count > kEndlessSkipMax) {
        return Bad("skip", count, "too large for endless data");
      }
      return Stage{Kind::kSkip, input, endless ? kEndless : std::max<int64_t>(0, input - count),
                   count,       0,     nullptr};
    }
    case proto::DatasetTransform::kTake: {
      const int64_t count = transform.take();
      if (count < -1) return Bad("take", count, "use -1 for all, or a count");
      // take(n) of endless data gives n elements.
      const int64_t output = count == -1 ? input : endless ? count : std::min(input, count);
      return Stage{Kind::kTake, input, output, 0, 0, nullptr};
    }
    case proto::DatasetTransform::kShard: {
      const int64_t num = transform.shard().num_shards();
      const int64_t index = transform.shard().index();
      if (num < 1) return Bad("shard.num_shards", num, "it must be at least 1");
      if (index < 0 || index >= num) return Bad("shard.index", index, "use 0 to num_shards - 1");
      // A shard has the input elements index, index + num, index + 2 * num, and so on.
      const int64_t output = endless ? kEndless : input > index ? (input - index - 1) / num + 1 : 0;
      return Stage{Kind::kShard, input, output, num, index, nullptr};
    }
    case proto::DatasetTransform::kBatch: {
      const int64_t size = transform.batch().size();
      if (size < 1 || size > kBatchMax) {
        return Bad("batch.size", size, absl::StrCat("use 1 to ", kBatchMax));
      }
      // An incomplete last batch counts as an element unless drop_remainder is set.
      const int64_t rest = transform.batch().drop_remainder() ? 0 : input % size != 0;
      return Stage{Kind::kBatch, input, endless ? kEndless : input / size + rest, size, 0, nullptr};
    }
    case proto::DatasetTransform::kShuffle:
      return MakeShuffle(transform.shuffle(), input);
    case proto::DatasetTransform::kRepeat:
      return MakeRepeat(transform.repeat(), input);
    default:
      return absl::InvalidArgumentError("a transform of the data set has no kind");
  }
}

absl::Status IndexPlan::Add(Stage stage) {
  // A second batch transform would make batches of batches, which Locate() cannot return.
  if (stage.kind == Kind::kBatch) {
    if (batched()) return Bad("batch", stage.parameter, "only one batch transform is supported");
    batch_stage_ = stages_.size();
    batch_size_ = stage.parameter;
  }
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

// Checks the product of the batch size and the shard counts in endless data, by which Locate()
// multiplies an output index. Errors: INVALID_ARGUMENT if the product exceeds kEndlessScaleMax.
absl::Status IndexPlan::CheckScale() const {
  int64_t scale = 1;
  for (const Stage& stage : stages_) {
    if (stage.output != kEndless) continue;
    if (stage.kind != Kind::kBatch && stage.kind != Kind::kShard) continue;
    // kEndlessScaleMax is divided by the product of earlier stages, because a multiplication could
    // overflow.
    if (stage.parameter > kEndlessScaleMax / scale) {
      return Bad("shard or batch", stage.parameter, "too large for endless data: put repeat last");
    }
    scale *= stage.parameter;
  }
  return absl::OkStatus();
}

absl::StatusOr<IndexPlan> IndexPlan::Build(int64_t source_elements,
                                           const proto::DatasetSpec& spec) {
  IndexPlan plan;
  plan.source_elements_ = source_elements;
  int64_t elements = source_elements;
  if (spec.transforms_size() > kTransformsMax) {
    return absl::InvalidArgumentError(absl::StrCat("the data set has ", spec.transforms_size(),
                                                   " transforms, more than ", kTransformsMax));
  }
  for (const proto::DatasetTransform& transform : spec.transforms()) {
    // Transforms of values (rescale, one_hot, class_labels, flatten) and prefetch do not move
    // indices.
    if (transform.has_rescale() || transform.has_one_hot() || transform.has_class_labels() ||
        transform.has_map() || transform.has_adapt() ||
        transform.kind_case() == proto::DatasetTransform::kFlatten ||
        transform.kind_case() == proto::DatasetTransform::kPrefetch) {
      continue;
    }
    ASSIGN_OR_RETURN(Stage stage, MakeStage(transform, elements));
    elements = stage.output;
    if (transform.has_batch()) plan.drop_remainder_ = transform.batch().drop_remainder();
    RETURN_IF_ERROR(plan.Add(std::move(stage)));
  }
  RETURN_IF_ERROR(plan.CheckScale());
  // A final repeat is not a stage, because the pass number in a position counts its repetitions.
  if (!plan.stages_.empty() && plan.stages_.back().kind == Kind::kRepeat) {
    plan.epochs_ = plan.stages_.back().parameter;
    plan.final_repeat_ = true;
    plan.stages_.pop_back();
  }
  return plan;
}

int64_t IndexPlan::elements_per_epoch() const {
  return stages_.empty() ? source_elements_ : stages_.back().output;
}

int64_t IndexPlan::cardinality() const {
  const int64_t elements = elements_per_epoch();
  if (elements == 0 || epochs_ == 0) return 0;
  if (elements == kEndless || epochs_ == kEndless) return kEndless;
  return elements * epochs_;  // Build() has refused plans in which this product overflows
}

IndexPlan::Place IndexPlan::Through(size_t index, Place place, OrderCursor& cursor) const {
  const Stage& stage = stages_[index];
  switch (stage.kind) {
    case Kind::kSkip:
      return {place.iteration, place.index + stage.parameter};
    case Kind::kTake:
      return place;
    case Kind::kShard:
      return {place.iteration, place.index * stage.parameter + stage.shard_index};
    case Kind::kRepeat: {
      // Every repetition gets a pass number of its own, and so its own shuffle order.
      const uint64_t times =
          stage.parameter == kEndless ? kEndlessStride : static_cast<uint64_t>(stage.parameter);
      if (stage.input == kEndless) return {place.iteration * times, place.index};
      const auto pass = static_cast<uint64_t>(place.index / stage.input);
      return {place.iteration * times + pass, place.index % stage.input};
    }
    case Kind::kShuffle: {
      OrderCursor::Entry& entry = cursor.entries[index];
      // Sequential reads stay in one pass, so they look up its shuffle order only once.
      if (entry.iteration != place.iteration || entry.order == nullptr) {
        entry = {place.iteration, stage.orders->Get(place.iteration), {}};
      }
      return {place.iteration, entry.order->At(place.index, entry.at)};
    }
    case Kind::kBatch:
      return {place.iteration, place.index * stage.parameter};
  }
  return place;
}

IndexPlan::Place IndexPlan::Descend(size_t end, size_t begin, Place place,
                                    OrderCursor& cursor) const {
  for (size_t i = end; i > begin; --i) place = Through(i - 1, place, cursor);
  return place;
}

absl::StatusOr<std::vector<int64_t>> IndexPlan::Locate(const proto::IteratorPosition& position,
                                                       OrderCursor& cursor) const {
  if (position.epoch() < 0 || position.element() < 0 || position.epoch() >= kEpochsMax) {
    return absl::InvalidArgumentError(absl::StrCat("position (epoch ", position.epoch(),
                                                   ", element ", position.element(),
                                                   ") is not in any data set"));
  }
  // Even in endless data, the position's element number must be below a limit, which is checked
  // here. So no index that is computed from it below overflows: Build() has limited what is added
  // to it (skip counts and shard indices), and with CheckScale() the product of the factors by
  // which it is multiplied (batch size and shard counts).
  const int64_t elements = elements_per_epoch();
  if (position.element() >= (elements == kEndless ? kEndlessElementsMax : elements) ||
      (final_repeat_ && epochs_ != kEndless && position.epoch() >= epochs_)) {
    return absl::OutOfRangeError(absl::StrCat("end of data: no element ", position.element(),
                                              " in epoch ", position.epoch()));
  }
  cursor.entries.resize(stages_.size());
  const Place top{static_cast<uint64_t>(position.epoch()), position.element()};
  if (!batched()) return std::vector<int64_t>{Descend(stages_.size(), 0, top, cursor).index};
  // Stages after the batch transform move whole batches; stages before it move single examples.
  const Place first = Descend(stages_.size(), batch_stage_, top, cursor);
  const int64_t input = stages_[batch_stage_].input;
  const int64_t count =
      // Only the last batch of finite data can be shorter than batch_size_.
      input == kEndless ? batch_size_ : std::min(batch_size_, input - first.index);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const Place example{first.iteration, first.index + i};
    indices[static_cast<size_t>(i)] = Descend(batch_stage_, 0, example, cursor).index;
  }
  return indices;
}

proto::IteratorPosition IndexPlan::Next(const proto::IteratorPosition& position) const {
  proto::IteratorPosition next = position;
  next.set_element(position.element() + 1);
  // Without a final repeat, a position never moves from one pass to the next.
  if (final_repeat_ && next.element() == elements_per_epoch()) {
    next.set_epoch(position.epoch() + 1);
    next.set_element(0);
  }
  return next;
}

bool IndexPlan::AtEnd(const proto::IteratorPosition& position, int64_t start_epoch) const {
  const int64_t elements = elements_per_epoch();
  // A pass without elements is always at its end, because an endless repeat of it would otherwise
  // never end.
  if (elements == 0) return true;
  if (final_repeat_) return epochs_ != kEndless && position.epoch() >= epochs_;
  return position.epoch() > start_epoch || (elements != kEndless && position.element() >= elements);
}

}  // namespace cohort
