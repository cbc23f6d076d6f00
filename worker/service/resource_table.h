#pragma once

// The data sets and iterators of a worker, by the ids that the coordinator gave them. Making one
// again with the same description keeps what is there, so that a repeated call changes nothing.

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

inline constexpr size_t kDatasetsMax = 4096;
inline constexpr size_t kIteratorsMax = 16384;

// Thread-safe.
class ResourceTable {
 public:
  ResourceTable(Executor& executor, FileSystem& files);

  // Reads files: slow. Errors: those of Dataset::Build; ALREADY_EXISTS for the id of another spec;
  // RESOURCE_EXHAUSTED beyond kDatasetsMax.
  absl::StatusOr<std::shared_ptr<const Dataset>> CreateDataset(
      const proto::CreateDatasetRequest& request);

  // Creates an iterator; another position or data set under the same id replaces the earlier one.
  // Errors: NOT_FOUND without the data set; INVALID_ARGUMENT for a bad position; RESOURCE_EXHAUSTED
  // beyond kIteratorsMax.
  absl::Status CreateIterator(const proto::CreateIteratorRequest& request);

  // Returns null if there is none.
  std::shared_ptr<const Dataset> FindDataset(uint64_t id) const;
  std::shared_ptr<ElementStream> FindIterator(uint64_t id) const;

  // Releases resources; unknown ids are passed over. Closures in flight keep what they use.
  void Release(const google::protobuf::RepeatedField<uint64_t>& ids);
  void Clear();

 private:
  struct DatasetEntry {
    std::string spec;
    std::shared_ptr<const Dataset> dataset;  // shared with iterators and closures
  };
  struct IteratorEntry {
    std::string description;
    std::shared_ptr<ElementStream> stream;  // shared with closures
  };

  Executor& executor_;
  SourceCache sources_;
  mutable Mutex mutex_;
  std::map<uint64_t, DatasetEntry> datasets_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, IteratorEntry> iterators_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
