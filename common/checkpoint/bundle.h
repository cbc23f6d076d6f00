#pragma once

// TensorFlow V2 checkpoints ("tensor bundles"): prefix.index is a leveldb-format table from tensor
// names to BundleEntryProto with a header entry under the empty key; prefix.data-0000i-of-0000N
// hold the bytes. A partitioned variable is one logical entry that lists slices, each stored under
// its own encoded key. A state file `checkpoint` names the latest. Format after
// tensorflow/core/util/tensor_bundle and tensor_slice_util.
//
// Writing: each task writes its data shard (DataShardWriter) and reports SavedSlices; the
// coordinator writes the index last (WriteIndex) and then the state file, so a crash at any moment
// leaves the previous checkpoint loadable. A prefix that has an index is complete and is never
// written again: a save repeated late must not change bytes that the index vouches for.

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

// Returns "prefix.data-00001-of-00003".
std::string DataShardPath(const std::string& prefix, int shard, int num_shards);

// Writes one data shard: to a temporary name first, renamed when finished. A file that cannot be
// finished is removed (temporary_file.h).
// Thread-compatible.
class DataShardWriter {
 public:
  // Errors: INVALID_ARGUMENT for a shard number outside [0, num_shards); ALREADY_EXISTS when the
  // prefix has an index; what FileSystem::Create returns.
  static absl::StatusOr<std::unique_ptr<DataShardWriter>> Create(FileSystem& files,
                                                                 const std::string& prefix,
                                                                 int shard, int num_shards);
  // Rows `rows` of the logical tensor `name` of shape `full_shape`; `value` has exactly these rows.
  // A scalar is saved whole, as {0, 1}. Errors: INVALID_ARGUMENT; what WritableFile::Append
  // returns. After an error the writer is of no more use.
  absl::Status Add(const std::string& name, const Shape& full_shape, RowRange rows,
                   const Tensor& value);
  // Adds a slice as shard_layout.h describes it, whose bytes lie in several pieces.
  absl::Status Add(proto::SavedSlice slice, absl::Span<const absl::string_view> pieces);
  // Syncs, closes and renames. The entries to report. Errors: ALREADY_EXISTS as Create; what the
  // file system returns.
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

// Writes prefix.index. Errors: INVALID_ARGUMENT when a slice is malformed or slices of a tensor
// overlap, leave a gap or disagree; FAILED_PRECONDITION when a data shard that the slices name is
// missing or shorter than they say.
absl::Status WriteIndex(FileSystem& files, const std::string& prefix, int num_shards,
                        absl::Span<const proto::SavedSlice> slices);

class RowStream;

struct BundleTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
};

// Reads a checkpoint, written here or by TensorFlow. Thread-safe after Open.
class BundleReader {
 public:
  // Errors: NOT_FOUND without an index; DATA_LOSS naming the file when the index is damaged or a
  // data shard is missing or short; UNIMPLEMENTED for a big-endian or newer format.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(FileSystem& files,
                                                            const std::string& prefix);
  ~BundleReader();

  // Returns the tensors whose element type Cohort has: not TensorFlow's strings (the object graph).
  const std::map<std::string, BundleTensor>& tensors() const;
  // Errors: NOT_FOUND; DATA_LOSS naming the data shard; INVALID_ARGUMENT for rows outside the
  // tensor; UNIMPLEMENTED for an element type that Cohort has not. Every byte that is returned was
  // covered by a verified checksum. The one row of a scalar is {0, 1}.
  absl::StatusOr<Tensor> Read(const std::string& name) const;
  absl::StatusOr<Tensor> ReadRows(const std::string& name, RowRange rows) const;
  // Returns the same bytes in pieces, without memory for all of them, unless TensorFlow has cut the
  // tensor along other axes than the first. The reader outlives the stream.
  absl::StatusOr<std::unique_ptr<RowStream>> StreamRows(const std::string& name,
                                                        RowRange rows) const;

 private:
  class Impl;
  explicit BundleReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The state file `checkpoint` of a directory (text form of tensorflow.CheckpointState).
// Read errors: NOT_FOUND without one; DATA_LOSS when it cannot be parsed or names nothing. Paths
// below the directory are returned relative to it, others as they are.
struct CheckpointState {
  std::string latest;            // prefix, relative to the directory
  std::vector<std::string> all;  // oldest first
};
absl::StatusOr<CheckpointState> ReadCheckpointState(FileSystem& files,
                                                    const std::string& directory);
// Replaces the file in one step. Errors: INVALID_ARGUMENT without a latest; the file system's.
absl::Status WriteCheckpointState(FileSystem& files, const std::string& directory,
                                  const CheckpointState& state);

}  // namespace cohort
