#include "worker/service/resource_table.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// Returns the request's bytes without the epoch. Two requests with equal descriptions ask for the
// same iterator, even if a coordinator with a new epoch repeats the request.
std::string DescriptionOf(proto::CreateIteratorRequest request) {
  request.clear_epoch();
  return request.SerializeAsString();
}

absl::Status ExistsWithAnotherSpec(uint64_t dataset) {
  return absl::AlreadyExistsError(absl::StrCat("data set ", dataset, " exists with another spec"));
}

}  // namespace

ResourceTable::ResourceTable(Executor& executor, FileSystem& files, std::string directory)
    : executor_(executor), sources_(files, std::move(directory)) {}

absl::StatusOr<std::shared_ptr<const Dataset>> ResourceTable::CreateDataset(
    const proto::CreateDatasetRequest& request) {
  const std::string spec = request.spec().SerializeAsString();
  uint64_t life = 0;
  {
    MutexLock lock(mutex_);
    while (true) {
      const auto other = building_.find(request.dataset_id());
      if (other == building_.end()) break;
      if (other->second != spec) return ExistsWithAnotherSpec(request.dataset_id());
      built_.Wait(mutex_);
    }
    const auto found = datasets_.find(request.dataset_id());
    if (found != datasets_.end()) {
      if (found->second.spec == spec) return found->second.dataset;
      return ExistsWithAnotherSpec(request.dataset_id());
    }
    if (datasets_.size() >= kDatasetsMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this worker holds ", datasets_.size(), " data sets, its limit"));
    }
    building_[request.dataset_id()] = spec;
    life = life_;
  }
  // The data set is built outside the lock, because building reads files.
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = Dataset::Build(request.spec(), sources_);
  MutexLock lock(mutex_);
  // After Clear(), the ids belong to another coordinator, which may mean another data set.
  if (life != life_) return dataset;
  building_.erase(request.dataset_id());
  built_.NotifyAll();
  if (!dataset.ok()) return dataset;
  datasets_[request.dataset_id()] = {spec, *dataset};
  return dataset;
}

absl::Status ResourceTable::CreateIterator(const proto::CreateIteratorRequest& request) {
  const std::string description = DescriptionOf(request);
  std::shared_ptr<const Dataset> dataset;
  {
    MutexLock lock(mutex_);
    const auto found = iterators_.find(request.iterator_id());
    // An iterator that is created again with the same description keeps its present position.
    if (found != iterators_.end() && found->second.description == description) {
      return absl::OkStatus();
    }
    if (found == iterators_.end() && iterators_.size() >= kIteratorsMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this worker holds ", iterators_.size(), " iterators, its limit"));
    }
    const auto source = datasets_.find(request.dataset_id());
    if (source == datasets_.end()) {
      return absl::NotFoundError(
          absl::StrCat("no data set ", request.dataset_id(), " on this worker: create it first"));
    }
    dataset = source->second.dataset;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<DatasetIterator> iterator,
                   dataset->MakeIterator(request.position()));
  std::shared_ptr<ElementStream> stream =
      ElementStream::Start(executor_, std::move(iterator), {dataset->prefetch()});
  MutexLock lock(mutex_);
  IteratorEntry& entry = iterators_[request.iterator_id()];
  entry.description = description;
  // After the swap, `stream` holds the old stream, which is destroyed after the lock is released.
  entry.stream.swap(stream);
  return absl::OkStatus();
}

std::shared_ptr<const Dataset> ResourceTable::FindDataset(uint64_t id) const {
  MutexLock lock(mutex_);
  const auto found = datasets_.find(id);
  return found == datasets_.end() ? nullptr : found->second.dataset;
}

std::shared_ptr<ElementStream> ResourceTable::FindIterator(uint64_t id) const {
  MutexLock lock(mutex_);
  const auto found = iterators_.find(id);
  return found == iterators_.end() ? nullptr : found->second.stream;
}

void ResourceTable::Release(const google::protobuf::RepeatedField<uint64_t>& ids) {
  // The released entries, which are destroyed after the lock is released, because the destruction
  // may free much memory.
  std::vector<DatasetEntry> datasets;
  std::vector<IteratorEntry> iterators;
  MutexLock lock(mutex_);
  // An id may belong to a data set or to an iterator, so Release() searches both maps.
  for (const uint64_t id : ids) {
    if (const auto found = datasets_.find(id); found != datasets_.end()) {
      datasets.push_back(std::move(found->second));
      datasets_.erase(found);
    }
    if (const auto found = iterators_.find(id); found != iterators_.end()) {
      iterators.push_back(std::move(found->second));
      iterators_.erase(found);
    }
  }
}

void ResourceTable::Clear() {
  // The old contents of both maps, which are destroyed after the lock is released.
  std::map<uint64_t, DatasetEntry> datasets;
  std::map<uint64_t, IteratorEntry> iterators;
  MutexLock lock(mutex_);
  ++life_;
  building_.clear();
  built_.NotifyAll();
  datasets.swap(datasets_);
  iterators.swap(iterators_);
}

}  // namespace cohort
