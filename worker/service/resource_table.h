#pragma once

// Keeps the data sets and iterators of a worker, by the ids that the coordinator gave them. Making
// a resource again with the same description keeps the existing one, so a repeated call changes
// nothing.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "proto/worker.pb.h"
#include "worker/data/dataset.h"
#include "worker/data/element_stream.h"

namespace cohort {

// The largest numbers of data sets and iterators that one worker holds.
inline constexpr size_t kDatasetsMax = 4096;
inline constexpr size_t kIteratorsMax = 16384;

// A worker's data sets and iterators. Thread-safe.
class ResourceTable {
 public:
  // Relative paths of data begin at `directory` (SourceCache).
  ResourceTable(Executor& executor, FileSystem& files, std::string directory);

  // Creates a data set and reads its files, which is slow. Errors: those of Dataset::Build;
  // ALREADY_EXISTS for an id that has another spec; RESOURCE_EXHAUSTED beyond kDatasetsMax.
  absl::StatusOr<std::shared_ptr<const Dataset>> CreateDataset(
      const proto::CreateDatasetRequest& request);

  // Creates an iterator. Another position or data set under the same id replaces the earlier
  // iterator. Errors: NOT_FOUND without the data set; INVALID_ARGUMENT for a bad position;
  // RESOURCE_EXHAUSTED beyond kIteratorsMax.
  absl::Status CreateIterator(const proto::CreateIteratorRequest& request);

  // Return the data set or iterator, or null if the id is unknown.
  std::shared_ptr<const Dataset> FindDataset(uint64_t id) const;
  std::shared_ptr<ElementStream> FindIterator(uint64_t id) const;

  // Releases the data sets and iterators with these ids; ignores unknown ids. Closures in flight
  // keep the resources that they use.
  void Release(const google::protobuf::RepeatedField<uint64_t>& ids);
  void Clear();

 private:
  struct DatasetEntry {
    std::string spec;
    std::shared_ptr<const Dataset> dataset;  // the data set, shared with iterators and closures
  };
  struct IteratorEntry {
    std::string description;
    std::shared_ptr<ElementStream> stream;  // the elements of the iterator, shared with closures
  };

  Executor& executor_;
  SourceCache sources_;
  mutable Mutex mutex_;
  std::map<uint64_t, DatasetEntry> datasets_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, IteratorEntry> iterators_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
