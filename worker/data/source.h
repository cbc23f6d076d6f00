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
#include "common/records/unpacked/span_cache.h"
#include "common/tensor/tensor.h"
#include "proto/data.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/examples.h"
#include "worker/data/row_file.h"

namespace cohort {

// One component of a source: an array, or a range of integers.
struct SourceComponent {
  // The array; shared with other data sets that have the same source. Null for a range. Of named
  // columns, and of an array whose rows stay in their file, only the type, with no rows.
  std::shared_ptr<const Tensor> array;
  int64_t range_begin = 0;
  std::string name = "";  // name of the component, if the source names its columns
  std::string from = "";  // file that the component was read from, for error messages; empty: none

  std::shared_ptr<const RowFile> rows = nullptr;  // the rows that stay in their file

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
  // The examples of a source whose components are named columns; null for a source of arrays.
  std::shared_ptr<const Examples> examples = nullptr;
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
  absl::StatusOr<Source> OpenNumpy(const proto::NumpyFiles& numpy);
  absl::StatusOr<Source> OpenImages(const proto::ImageFolder& folder);
  absl::StatusOr<Source> OpenSynthetic(const proto::SyntheticDigits& digits);
  absl::StatusOr<Source> OpenClickLog(const proto::ClickLog& log);
  absl::StatusOr<Source> OpenRecords(const proto::RecordFiles& record_files);
  // Returns the examples of `spec`, whose paths are full ones: those that another data set uses, if
  // their files have not changed, else new ones.
  absl::StatusOr<std::shared_ptr<const Examples>> OpenExamples(const proto::RecordFiles& spec);
  // Returns the component in the IDX file `file`, with the array that another data set uses, else a
  // new one, or with rows that stay in the file.
  absl::StatusOr<SourceComponent> OpenIdxFile(const proto::DataFile& file);
  // Returns the same of a .npy file, or of array `key` of a .npz file.
  absl::StatusOr<SourceComponent> OpenNumpyFile(const proto::DataFile& file,
                                                const std::string& key);
  std::string FullPath(const std::string& path) const;
  std::shared_ptr<const Tensor> Find(const std::string& key) const;
  std::shared_ptr<const Tensor> Keep(const std::string& key, Tensor array);

  // The bytes of unpacked data that are kept: the blocks of a shuffle by blocks (proto::Shuffle)
  // with its defaults, of records of up to 1 KiB.
  static constexpr size_t kUnpackedBytesMax = size_t{96} << 20;

  FileSystem& files_;
  const std::string directory_;
  // Shared with the files that are read.
  const std::shared_ptr<SpanCache> unpacked_ = std::make_shared<SpanCache>(kUnpackedBytesMax);
  mutable Mutex mutex_;
  // The examples of record files that a data set uses, by their spec.
  std::map<std::string, std::weak_ptr<const Examples>> examples_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<const Tensor>> arrays_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
