#include "coordinator/schedule/resource_catalog.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/wire/typed_call.h"

namespace cohort {

namespace {

std::string ProgramKey(const Closure& closure) {
  return absl::StrCat("program:", closure.program->id);
}
std::string DatasetKey(uint64_t id) { return absl::StrCat("dataset:", id); }
std::string IteratorKey(uint64_t id) { return absl::StrCat("iterator:", id); }

// Returns the data set that the closure reads, or nullptr if it reads none.
const RegisteredDataset* DatasetOf(const Closure& closure) {
  if (const auto* split = std::get_if<SplitInput>(&closure.input)) return split->dataset.get();
  if (const auto* iterator =
          std::get_if<std::shared_ptr<const RegisteredIterator>>(&closure.input)) {
    return (*iterator)->dataset.get();
  }
  return nullptr;
}

const RegisteredIterator* IteratorOf(const Closure& closure) {
  const auto* iterator = std::get_if<std::shared_ptr<const RegisteredIterator>>(&closure.input);
  return iterator == nullptr ? nullptr : iterator->get();
}

template <typename Proto>
Message Pack(const Proto& header) {
  return cohort::Pack(Envelope<Proto>{header, {}});
}

}  // namespace

std::vector<std::string> ResourceCatalog::KeysFor(const Closure& closure) {
  // The keys are in the order in which the resources must be made: a data set before its iterator.
  std::vector<std::string> keys = {ProgramKey(closure)};
  if (const RegisteredDataset* dataset = DatasetOf(closure)) {
    keys.push_back(DatasetKey(dataset->id));
  }
  if (const RegisteredIterator* iterator = IteratorOf(closure)) {
    keys.push_back(IteratorKey(iterator->id));
  }
  return keys;
}

ResourceRequest ResourceCatalog::Request(const Closure& closure, const std::string& key,
                                         int worker) const {
  if (absl::StartsWith(key, "program:")) {
    proto::RegisterProgramRequest request = closure.program->request;
    request.set_epoch(epoch_);
    return {key, "/cohort.proto.WorkerService/RegisterProgram", Pack(request)};
  }
  if (absl::StartsWith(key, "dataset:")) {
    const RegisteredDataset* dataset = DatasetOf(closure);
    proto::CreateDatasetRequest request;
    request.set_epoch(epoch_);
    request.set_dataset_id(dataset->id);
    *request.mutable_spec() = dataset->spec;
    // `expected` is the description of the data set that another worker gave. A worker refuses to
    // build a data set that differs from it.
    if (auto expected = dataset->expected->Get(); expected.has_value()) {
      *request.mutable_expected() = *std::move(expected);
    }
    return {key, "/cohort.proto.WorkerService/CreateDataset", Pack(request)};
  }
  const RegisteredIterator* iterator = IteratorOf(closure);
  COHORT_CHECK(iterator != nullptr, "the key names a resource of this closure");
  proto::CreateIteratorRequest request;
  request.set_epoch(epoch_);
  request.set_iterator_id(iterator->id);
  request.set_dataset_id(iterator->dataset->id);
  const auto position = positions_.find({iterator->id, worker});
  // If the worker was restarted, its iterator continues after the last element that an answer has
  // reported.
  if (position != positions_.end()) *request.mutable_position() = position->second;
  return {key, "/cohort.proto.WorkerService/CreateIterator", Pack(request)};
}

SplitInput ResourceCatalog::ElementOf(const std::shared_ptr<const RegisteredDataset>& dataset,
                                      int64_t worker_position,
                                      const proto::IteratorPosition& position) {
  // If the data set is not sharded by worker, every worker sees the same elements at the same
  // positions, so the position alone names the element.
  const auto& transforms = dataset->spec.transforms();
  const bool is_own = std::any_of(transforms.begin(), transforms.end(), [](const auto& transform) {
    return transform.shard().by_worker();
  });
  if (!is_own) return {dataset, position};
  // The id of the copy has the worker's position plus one in its upper 32 bits. So it differs from
  // all ids that a coordinator gives, which count from 1.
  const uint64_t id = dataset->id | (static_cast<uint64_t>(worker_position) + 1) << 32;
  std::shared_ptr<const RegisteredDataset>& held = shards_[id];
  if (held == nullptr) {
    auto shard = std::make_shared<RegisteredDataset>(*dataset);
    shard->id = id;
    // The shard differs from the shards of other workers, so it must not be compared with their
    // answers.
    shard->expected = std::make_shared<ExpectedOfWorkers>();
    // In the copy, the shard index is fixed. So every worker builds the shard that this worker had.
    for (proto::DatasetTransform& transform : *shard->spec.mutable_transforms()) {
      if (!transform.shard().by_worker()) continue;
      transform.mutable_shard()->set_by_worker(false);
      transform.mutable_shard()->set_index(worker_position);
    }
    held = std::move(shard);
  }
  return {held, position};
}

void ResourceCatalog::TakePositions(int worker, const proto::RunClosureResponse& answer,
                                    Closure& closure) {
  if (!answer.has_next_position()) return;
  const auto* iterator = std::get_if<std::shared_ptr<const RegisteredIterator>>(&closure.input);
  if (iterator == nullptr) return;
  // The next closure on this worker reads from `next_position`. `taken` is the element that this
  // closure has read, and reads again if it is replayed.
  SetPosition((*iterator)->id, worker, answer.next_position());
  closure.taken = ElementOf((*iterator)->dataset, answer.worker_position(), answer.position());
}

void ResourceCatalog::SetPosition(uint64_t iterator_id, int worker,
                                  const proto::IteratorPosition& position) {
  proto::IteratorPosition& held = positions_[{iterator_id, worker}];
  // Closures that run side by side may be answered in any order, so only the furthest position is
  // kept.
  const auto at = [](const proto::IteratorPosition& p) {
    return std::make_pair(p.epoch(), p.element());
  };
  if (at(held) < at(position)) held = position;
}

}  // namespace cohort
