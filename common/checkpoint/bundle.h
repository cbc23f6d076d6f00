#pragma once

// Reading and writing of TensorFlow V2 checkpoints ("tensor bundles"). A checkpoint is named by a
// path prefix. The file prefix.index is a table in LevelDB's format that maps tensor names to
// BundleEntryProto, with a header entry under the empty key. The files prefix.data-0000i-of-0000N,
// the data shards, hold the tensors' bytes. A partitioned variable is one logical tensor whose
// entry lists its slices, each of which is stored under its own encoded key. A state file
// `checkpoint` names the latest checkpoint. The format follows tensorflow/core/util/tensor_bundle
// and tensor_slice_util.
//
// To save, each task writes its data shard (DataShardWriter) and reports its SavedSlices. The
// coordinator writes the index after all data shards (WriteIndex) and then the state file, so a
// crash at any moment leaves the previous checkpoint loadable. A prefix that has an index is
// complete and is never written again: a late repetition of a save must not change bytes that the
// index describes.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/base/temporary_file.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"
#include "proto/ps.pb.h"

namespace cohort {

// Returns the path of a data shard, such as "prefix.data-00001-of-00003".
std::string DataShardPath(const std::string& prefix, int shard, int num_shards);

// The text that follows a dynamic table's name in the names of the tensors that hold the table's
// rows. The parameter servers define what comes after this text
// (ps_server/checkpoint/table_parts.h).
inline constexpr char kTableRowsInfix[] = "/.COHORT_ROWS/";

// The text between a variable's name and "<optimizer>/<slot>" in the name of a slot's tensor. For a
// slot of a dynamic table, "<optimizer>/<slot>" instead stands at the end of a name with
// kTableRowsInfix.
inline constexpr char kSlotInfix[] = "/.OPTIMIZER_SLOT/";

// The infix between a variable's name and the first row of a slice in the name of the tensor that
// holds the slice's history. The parameter servers define the tensor's content
// (ps_server/checkpoint/checkpoint_io.h).
inline constexpr char kAppliedInfix[] = "/.COHORT_APPLIED/";

struct BundleTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
};

// The first rows of the slices of each variable in a checkpoint that has their histories,
// ascending.
using SliceStarts = std::map<std::string, std::vector<int64_t>>;
SliceStarts SliceStartsOf(const std::map<std::string, BundleTensor>& tensors);

// Returns the shape of the rows `rows` of a tensor. A scalar keeps its shape.
Shape ShapeOfRows(const Shape& full_shape, RowRange rows);

// Returns the description of the rows `rows` of the logical tensor `name`, as a save reports it.
// Shard, offset and checksum are not set yet. Errors: INVALID_ARGUMENT that names the tensor if its
// name, type or shape cannot be saved or the rows lie outside it.
absl::StatusOr<proto::SavedSlice> DescribeSlice(const std::string& name, const BundleTensor& tensor,
                                                RowRange rows);

// The writer of one data shard. The shard's file has a temporary name until Finish gives it its
// final name; if Finish is never called or fails, the file is removed (temporary_file.h).
// Thread-compatible.
class DataShardWriter {
 public:
  // Creates the temporary file of data shard number `shard`. Errors: INVALID_ARGUMENT unless 0 <=
  // shard < num_shards <= kBundleShardsMax; ALREADY_EXISTS if the prefix has an index; those of
  // FileSystem::Create.
  static absl::StatusOr<std::unique_ptr<DataShardWriter>> Create(FileSystem& files,
                                                                 const std::string& prefix,
                                                                 int shard, int num_shards);
  // Writes the rows `rows` of the logical tensor `name`, whose whole shape is `full_shape`; `value`
  // holds exactly these rows. A scalar is saved whole, as the rows {0, 1}. Errors: those of
  // DescribeSlice; INVALID_ARGUMENT if the shape of `value` differs from that of the rows; those of
  // WritableFile::Append. After an error the writer must not be used again.
  absl::Status Add(const std::string& name, const Shape& full_shape, RowRange rows,
                   const Tensor& value);
  // Writes a slice, which DescribeSlice has described and whose bytes are the concatenation of
  // `pieces`. Errors: INVALID_ARGUMENT if the pieces have another size than the slice; those of
  // WritableFile::Append.
  absl::Status Add(proto::SavedSlice slice, absl::Span<const absl::string_view> pieces);
  // Syncs and closes the data shard's file and gives it its final name. Returns the slices to
  // report to the coordinator. Errors: ALREADY_EXISTS if the prefix now has an index; those of the
  // file system.
  absl::StatusOr<std::vector<proto::SavedSlice>> Finish();

 private:
  DataShardWriter(FileSystem& files, std::string prefix, std::string path, int shard,
                  std::unique_ptr<TemporaryFile> file);
  FileSystem& files_;
  const std::string prefix_;
  const std::string path_;
  const int shard_;
  std::unique_ptr<TemporaryFile> file_;
  uint64_t offset_ = 0;
  std::vector<proto::SavedSlice> saved_;
};

// Writes prefix.index, which makes the checkpoint complete. Errors: INVALID_ARGUMENT if a slice is
// malformed, or if the slices of a tensor overlap, leave a gap or disagree about the tensor's type
// or shape; FAILED_PRECONDITION if a data shard that the slices name is missing or too short for
// the slices; those of the file system.
absl::Status WriteIndex(FileSystem& files, const std::string& prefix, int num_shards,
                        absl::Span<const proto::SavedSlice> slices);

class RowStream;

// A reader of one checkpoint that Cohort or TensorFlow has written. Thread-safe after Open.
class BundleReader {
 public:
  // Opens the checkpoint `prefix` and checks its index and the sizes of its data shards. Errors:
  // NOT_FOUND without an index; DATA_LOSS that names the file if the index is damaged or a data
  // shard is missing or too short; UNIMPLEMENTED for a big-endian format or a newer format.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(FileSystem& files,
                                                            const std::string& prefix);
  ~BundleReader();

  // Returns the checkpoint's tensors, by name, whose element type Cohort supports. Strings, such as
  // TensorFlow's object graph, are left out.
  const std::map<std::string, BundleTensor>& tensors() const;
  // Returns the tensors that are left out, with the numbers of their types in TensorFlow.
  const std::map<std::string, int>& left_out() const;
  // Returns the strings of a tensor of strings that is left out. Errors: NOT_FOUND; DATA_LOSS that
  // names the data shard; UNIMPLEMENTED for a tensor of another type, or of more than
  // kStringTensorBytesMax bytes.
  absl::StatusOr<std::vector<std::string>> ReadStrings(const std::string& name) const;
  // Reads a tensor, or rows of a tensor. Every returned byte is covered by a verified checksum. The
  // one row of a scalar is {0, 1}. Errors: NOT_FOUND; DATA_LOSS that names the data shard;
  // INVALID_ARGUMENT for rows outside the tensor; UNIMPLEMENTED for an element type that Cohort
  // does not support.
  absl::StatusOr<Tensor> Read(const std::string& name) const;
  absl::StatusOr<Tensor> ReadRows(const std::string& name, RowRange rows) const;
  // Returns a stream of the bytes that ReadRows would return. The stream does not hold all bytes in
  // memory, unless TensorFlow has cut the tensor along another axis than the first. The
  // BundleReader must outlive the stream. Errors: as for ReadRows.
  absl::StatusOr<std::unique_ptr<RowStream>> StreamRows(const std::string& name,
                                                        RowRange rows) const;

 private:
  class Impl;
  explicit BundleReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
