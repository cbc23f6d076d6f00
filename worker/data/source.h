#pragma once

// A source is a number of elements with one or more components each. A component is an array whose
// axis 0 counts the elements, or the numbers of a range. The data sets of one worker share decoded
// files: the worker's SourceCache returns an array again as long as some data set uses the array,
// and does not keep it alive longer.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "proto/data.pb.h"
#include "proto/plan.pb.h"

namespace cohort {

// One component of a source: an array or a range.
struct SourceComponent {
  // The decoded array, shared with the cache and with other data sets of the same file; null for a
  // range.
  std::shared_ptr<const Tensor> array;
  int64_t range_begin = 0;
  std::string name = "";  // name of the component's column, if the source names its columns
  std::string from = "";  // file that the component was read from, for error messages

  DType dtype() const { return array ? array->dtype() : DType::kInt64; }
  // Returns the shape of one element of this component.
  Shape element_shape() const;
};

struct Source {
  int64_t elements = 0;
  std::vector<SourceComponent> components;
  // The crc32c of the source's data. It does not depend on the files' paths and times of change.
  uint32_t content = 0;
  // The files that the data were read from, with their full paths, in the order of the spec.
  std::vector<proto::DataFile> files = {};
};

// Opens sources and shares decoded arrays between data sets. Thread-safe.
class SourceCache {
 public:
  // Relative paths of sources begin at `directory`. An empty directory leaves them as they are.
  SourceCache(FileSystem& files, std::string directory)
      : files_(files), directory_(std::move(directory)) {}

  // Opens a source and reads or makes its data, which is slow. Errors name files by their full
  // paths: INVALID_ARGUMENT naming the field of the spec or the files whose element counts differ;
  // NOT_FOUND for a file; DATA_LOSS for a damaged file.
  absl::StatusOr<Source> Open(const proto::DatasetSource& source);

  // Returns the number of cached arrays that at least one data set holds now; for tests.
  size_t live_arrays() const;

 private:
  absl::StatusOr<Source> OpenIdx(const proto::IdxFiles& idx);
  absl::StatusOr<Source> OpenSynthetic(const proto::SyntheticDigits& digits);
  absl::StatusOr<Source> OpenClickLog(const proto::ClickLog& log);
  // Returns the array of the IDX file `file`, from the cache or by reading it.
  absl::StatusOr<std::shared_ptr<const Tensor>> OpenFile(const proto::DataFile& file);
  std::string FullPath(const std::string& path) const;
  std::shared_ptr<const Tensor> Find(const std::string& key) const;
  std::shared_ptr<const Tensor> Keep(const std::string& key, Tensor array);

  FileSystem& files_;
  const std::string directory_;
  mutable Mutex mutex_;
  std::map<std::string, std::weak_ptr<const Tensor>> arrays_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
