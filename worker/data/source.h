#pragma once

// A source is a number of examples with one or more components each. A component is an array whose
// axis 0 counts the examples, or a range of integers. The data sets of one worker share the arrays
// that were read from files: the worker's SourceCache knows each array as long as a data set uses
// it, and does not keep it alive longer.

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
#include "worker/data/record_examples.h"

namespace cohort {

// One component of a source: an array, or a range of integers.
struct SourceComponent {
  // The array; shared with other data sets that have the same source. Null for a range.
  std::shared_ptr<const Tensor> array;
  int64_t range_begin = 0;
  std::string name = "";  // name of the component, if the source names its columns
  std::string from = "";  // file that the component was read from, for error messages; empty: none

  DType dtype() const { return array ? array->dtype() : DType::kInt64; }
  // Returns the shape of one example's value of this component.
  Shape element_shape() const;
};

struct Source {
  int64_t elements = 0;
  std::vector<SourceComponent> components;
  // Checksum (crc32c) of the source's data. Copies of the files under other paths give the same
  // checksum.
  uint32_t content = 0;
  // The files that the data were read from, by their full paths, in the order of the spec.
  std::vector<proto::DataFile> files = {};
  // The examples of a source of record files, whose components are its columns; null for any other.
  std::shared_ptr<const RecordExamples> records = nullptr;
};

// Opens sources, and shares arrays between data sets. Thread-safe.
class SourceCache {
 public:
  // Makes an empty cache. Relative paths of files begin at `directory`; if it is empty, they stay
  // as they are.
  SourceCache(FileSystem& files, std::string directory)
      : files_(files), directory_(std::move(directory)) {}

  // Opens a source: reads its files or makes its data, which is slow. Errors: INVALID_ARGUMENT
  // naming the bad field of `source`, or two files with different numbers of examples; NOT_FOUND
  // and DATA_LOSS (a damaged file) naming the file by its full path.
  absl::StatusOr<Source> Open(const proto::DatasetSource& source);

  // Returns the number of arrays that a data set uses now; for tests.
  size_t live_arrays() const;

 private:
  absl::StatusOr<Source> OpenIdx(const proto::IdxFiles& idx);
  absl::StatusOr<Source> OpenSynthetic(const proto::SyntheticDigits& digits);
  absl::StatusOr<Source> OpenClickLog(const proto::ClickLog& log);
  absl::StatusOr<Source> OpenRecords(const proto::RecordFiles& record_files);
  // Returns the array in the IDX file `file`: the one that another data set uses, else a new one.
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
