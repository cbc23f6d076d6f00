#pragma once

// A source is a number of elements, each of one or more components; a component is an array whose
// axis 0 counts the elements, or the numbers of a range. Decoded files are shared by the data sets
// of one worker: its SourceCache keeps no array alive that no data set uses.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

struct SourceComponent {
  // Shared with the cache and with other data sets of the same file; null for a range.
  std::shared_ptr<const Tensor> array;
  int64_t range_begin = 0;
  std::string name = "";  // the column's, if the source names its columns
  std::string from = "";  // the file, for messages

  DType dtype() const { return array ? array->dtype() : DType::kInt64; }
  // Returns the shape of one element.
  Shape element_shape() const;
};

struct Source {
  int64_t elements = 0;
  std::vector<SourceComponent> components;
  uint32_t content = 0;  // crc32c of what the data are; not of where they lie, nor since when
};

// Thread-safe.
class SourceCache {
 public:
  explicit SourceCache(FileSystem& files) : files_(files) {}

  // Opens a source; reading or making the data is slow. Errors: INVALID_ARGUMENT naming the field
  // of the spec or the files whose counts differ; NOT_FOUND for a file; DATA_LOSS for a damaged
  // one.
  absl::StatusOr<Source> Open(const proto::DatasetSource& source);

  // Arrays that are held by some data set now; for tests.
  size_t live_arrays() const;

 private:
  absl::StatusOr<Source> OpenIdx(const proto::IdxFiles& idx);
  absl::StatusOr<Source> OpenSynthetic(const proto::SyntheticDigits& digits);
  absl::StatusOr<Source> OpenClickLog(const proto::ClickLog& log);
  // Opens a file; `content` is its Fingerprint.
  absl::StatusOr<std::shared_ptr<const Tensor>> OpenFile(const std::string& path,
                                                         const std::string& content);
  std::shared_ptr<const Tensor> Find(const std::string& key) const;
  std::shared_ptr<const Tensor> Keep(const std::string& key, Tensor array);

  FileSystem& files_;
  mutable Mutex mutex_;
  std::map<std::string, std::weak_ptr<const Tensor>> arrays_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
