#include "coordinator/schedule/resource_catalog.h"

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
    return {key, "/cohort.proto.WorkerService/CreateDataset", Pack(request)};
  }
  const RegisteredIterator* iterator = IteratorOf(closure);
  COHORT_CHECK(iterator != nullptr, "a key of this closure");
  proto::CreateIteratorRequest request;
  request.set_epoch(epoch_);
  request.set_iterator_id(iterator->id);
  request.set_dataset_id(iterator->dataset->id);
  const auto position = positions_.find({iterator->id, worker});
  if (position != positions_.end()) *request.mutable_position() = position->second;
  return {key, "/cohort.proto.WorkerService/CreateIterator", Pack(request)};
}

void ResourceCatalog::SetPosition(uint64_t iterator_id, int worker,
                                const proto::IteratorPosition& position) {
  proto::IteratorPosition& held = positions_[{iterator_id, worker}];
  // Replies of closures that ran side by side come in any order: the furthest position counts.
  const auto at = [](const proto::IteratorPosition& p) {
    return std::make_pair(p.epoch(), p.element());
  };
  if (at(held) < at(position)) held = position;
}

}  // namespace cohort
