#pragma once

// The table of a worker's data sets and iterators, by the ids that the coordinator gave them. If an
// id is created again with the same description, the table keeps the existing data set or iterator,
// so a repeated call changes nothing.

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
  // Makes an empty table. Relative paths of data files are resolved against `directory` (see
  // SourceCache).
  ResourceTable(Executor& executor, FileSystem& files, std::string directory);

  // Creates a data set and reads its files, which is slow, or returns the existing data set if the
  // id is known with the same spec. While another thread creates the same data set, waits for that
  // thread's data set, so that a caller that lost patience and asks again is not served later.
  // Errors: those of Dataset::Build; ALREADY_EXISTS if the id is known with another spec;
  // RESOURCE_EXHAUSTED if the worker holds kDatasetsMax data sets.
  absl::StatusOr<std::shared_ptr<const Dataset>> CreateDataset(
      const proto::CreateDatasetRequest& request);

  // Creates an iterator at the requested position of a data set. An iterator with the same id and
  // request is kept where it stands; an iterator with the same id and another request is replaced.
  // Errors: NOT_FOUND if the worker does not have the data set; INVALID_ARGUMENT for a position
  // outside the data set; RESOURCE_EXHAUSTED if the worker holds kIteratorsMax iterators.
  absl::Status CreateIterator(const proto::CreateIteratorRequest& request);

  // Return the data set or iterator with this id, or null if the id is unknown.
  std::shared_ptr<const Dataset> FindDataset(uint64_t id) const;
  std::shared_ptr<ElementStream> FindIterator(uint64_t id) const;

  // Releases the data sets and iterators with these ids and ignores unknown ids. Closures in flight
  // keep the data sets and iterators that they use alive.
  void Release(const google::protobuf::RepeatedField<uint64_t>& ids);
  // Releases everything. Data sets that are being created do not enter the table.
  void Clear();

 private:
  struct DatasetEntry {
    std::string spec;
    std::shared_ptr<const Dataset> dataset;  // the data set; shared with iterators and closures
  };
  struct IteratorEntry {
    std::string description;
    // The iterator with the elements that are ready; shared with closures.
    std::shared_ptr<ElementStream> stream;
  };

  Executor& executor_;
  SourceCache sources_;
  mutable Mutex mutex_;
  CondVar built_;                              // a data set is no longer in building_
  uint64_t life_ ABSL_GUARDED_BY(mutex_) = 0;  // number of calls of Clear()
  // The specs of the data sets that threads create in this life.
  std::map<uint64_t, std::string> building_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, DatasetEntry> datasets_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, IteratorEntry> iterators_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
