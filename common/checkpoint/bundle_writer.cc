#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"
#include "common/checkpoint/index_bytes.h"
#include "common/checkpoint/slice_box.h"

namespace cohort {

namespace {

// The checkpoint format is little endian, and the writer copies tensors from memory without
// converting them.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// The number of bytes that are checksummed and then written at a time. It is small, so that the
// bytes are still in the processor's cache when they are written.
constexpr size_t kAppendBytes = 1 << 20;

// Checks that the rows `rows` of a tensor can be saved: the tensor has a supported type and size,
// and the rows lie inside the tensor.
absl::Status CheckSlice(const BundleTensor& tensor, RowRange rows) {
  if (TensorFlowDType(tensor.dtype) == 0) {
    return absl::InvalidArgumentError("the tensor has no value");
  }
  RETURN_IF_ERROR(CheckedBytes(tensor.dtype, tensor.shape.dims()).status());
  const int64_t rows_all = tensor.shape.rank() == 0 ? 1 : tensor.shape.dim(0);
  // A tensor without rows is saved as one whole slice; other empty slices are refused.
  const bool whole = rows == RowRange{0, rows_all};
  if (rows.begin < 0 || rows.count < 0 || rows.count > rows_all ||
      rows.begin > rows_all - rows.count || (!whole && rows.count == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no rows ", rows.begin, "+", rows.count, " of ", tensor.shape.ToString()));
  }
  return absl::OkStatus();
}

// Returns the number of rows of the whole tensor to which the slice belongs.
int64_t RowsOf(const proto::SavedSlice& slice) {
  return slice.full_dims_size() == 0 ? 1 : slice.full_dims(0);
}

// Returns true if the slice holds all rows of its tensor.
bool IsWhole(const proto::SavedSlice& slice) {
  return slice.row_begin() == 0 && slice.row_count() == RowsOf(slice);
}

// Returns the box that the slice, which is a range of rows, covers in its tensor.
SliceBox BoxOf(const proto::SavedSlice& slice) {
  SliceBox box = WholeBox(slice.full_dims());
  if (!box.starts.empty()) {
    box.starts[0] = slice.row_begin();
    box.lengths[0] = slice.row_count();
  }
  return box;
}

// Checks the fields of a slice that a task has reported to the coordinator: name, type, shape, data
// shard, rows, offset and size.
absl::Status CheckSavedSlice(const proto::SavedSlice& slice, int num_shards) {
  RETURN_IF_ERROR(CheckTensorName(slice.tensor()));
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromNumber(slice.dtype()));
  if (TensorFlowDType(dtype) == 0) return absl::InvalidArgumentError("no element type");
  RETURN_IF_ERROR(CheckedBytes(dtype, slice.full_dims()).status());
  if (slice.shard() < 0 || slice.shard() >= num_shards) {
    return absl::InvalidArgumentError(
        absl::StrCat("data shard ", slice.shard(), " of ", num_shards));
  }
  if (slice.row_begin() < 0 || slice.row_count() < 0 ||
      slice.row_begin() > RowsOf(slice) - slice.row_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows ", slice.row_begin(), "+", slice.row_count(), " of ", RowsOf(slice)));
  }
  ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(dtype, BoxOf(slice).lengths));
  if (slice.offset() < 0 || slice.size() != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(slice.size(), " bytes at ", slice.offset(), " where ", bytes, " are needed"));
  }
  return absl::OkStatus();
}

proto::BundleEntryProto EntryOf(const proto::SavedSlice& slice, absl::Span<const int64_t> dims) {
  proto::BundleEntryProto entry;
  entry.set_dtype(TensorFlowDType(static_cast<DType>(slice.dtype())));
  // mutable_shape() sets the field even if no dimension follows, because to TensorFlow the empty
  // shape of a scalar is not the same as an absent shape.
  entry.mutable_shape();
  for (int64_t dim : dims) entry.mutable_shape()->add_dim()->set_size(dim);
  return entry;
}

// Returns the index entry for bytes that are stored in a data shard: those of a slice, or of a
// tensor that was saved whole.
proto::BundleEntryProto LocatedEntryOf(const proto::SavedSlice& slice,
                                       absl::Span<const int64_t> dims) {
  proto::BundleEntryProto entry = EntryOf(slice, dims);
  entry.set_shard_id(slice.shard());
  entry.set_offset(slice.offset());
  entry.set_size(slice.size());
  entry.set_crc32c(MaskCrc32c(slice.crc32c()));
  return entry;
}

// Returns a range of rows in TensorFlow's form of a slice: only axis 0 has a start and a length.
proto::BundleSlice RowSlice(const proto::SavedSlice& slice) {
  proto::BundleSlice rows;
  for (int axis = 0; axis < slice.full_dims_size(); ++axis) rows.add_extent();
  rows.mutable_extent(0)->set_start(slice.row_begin());
  rows.mutable_extent(0)->set_length(slice.row_count());
  return rows;
}

// Adds the index entries of one tensor: the entry of the tensor and, unless the tensor was saved
// whole, an entry for each slice.
absl::Status AddTensor(const std::string& name, absl::Span<const proto::SavedSlice* const> slices,
                       IndexEntries& entries) {
  const proto::SavedSlice& first = *slices[0];
  if (slices.size() == 1 && IsWhole(first)) {
    entries[name] = LocatedEntryOf(first, first.full_dims());
    return absl::OkStatus();
  }
  if (slices.size() > static_cast<size_t>(kTensorSlicesMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat(slices.size(), " slices are above ", kTensorSlicesMax));
  }
  proto::BundleEntryProto tensor = EntryOf(first, first.full_dims());
  std::vector<SliceBox> boxes;
  for (const proto::SavedSlice* slice : slices) {
    if (slice->dtype() != first.dtype() ||
        !std::equal(slice->full_dims().begin(), slice->full_dims().end(), first.full_dims().begin(),
                    first.full_dims().end())) {
      return absl::InvalidArgumentError("slices disagree about the element type or the shape");
    }
    boxes.push_back(BoxOf(*slice));
  }
  // The slices must cover the tensor exactly once. Otherwise the index would describe a tensor with
  // missing rows.
  RETURN_IF_ERROR(CheckBoxesTile(first.full_dims(), boxes));
  for (size_t i = 0; i < slices.size(); ++i) {
    const proto::BundleSlice rows = RowSlice(*slices[i]);
    entries[SliceKey(name, rows)] = LocatedEntryOf(*slices[i], boxes[i].lengths);
    *tensor.add_slices() = rows;
  }
  entries[name] = std::move(tensor);
  return absl::OkStatus();
}

// Returns the index entries of all slices. Slices are ordered by their rows, not by the order in
// which tasks reported them, so the same slices always give the same index.
absl::StatusOr<IndexEntries> EntriesOf(absl::Span<const proto::SavedSlice> slices, int num_shards) {
  std::map<std::string, std::map<std::pair<int64_t, size_t>, const proto::SavedSlice*>> by_tensor;
  for (size_t i = 0; i < slices.size(); ++i) {
    RETURN_IF_ERROR(Annotate(CheckSavedSlice(slices[i], num_shards),
                             absl::StrCat("tensor '", slices[i].tensor(), "'")));
    // The slice's number `i` is a part of the key, so that two slices that begin at the same row
    // both stay in the map and are both checked.
    by_tensor[slices[i].tensor()][{slices[i].row_begin(), i}] = &slices[i];
  }
  IndexEntries entries;
  for (const auto& [name, ordered] : by_tensor) {
    std::vector<const proto::SavedSlice*> of_tensor;
    for (const auto& [key, slice] : ordered) of_tensor.push_back(slice);
    RETURN_IF_ERROR(
        Annotate(AddTensor(name, of_tensor, entries), absl::StrCat("tensor '", name, "'")));
  }
  return entries;
}

// Checks that every data shard named by a slice is long enough for the shard's slices.
absl::Status CheckShardsExist(FileSystem& files, const std::string& prefix, int num_shards,
                              absl::Span<const proto::SavedSlice> slices) {
  std::map<int, uint64_t> ends;
  for (const proto::SavedSlice& slice : slices) {
    uint64_t& end = ends[slice.shard()];
    end =
        std::max(end, static_cast<uint64_t>(slice.offset()) + static_cast<uint64_t>(slice.size()));
  }
  for (const auto& [shard, end] : ends) {
    const std::string path = DataShardPath(prefix, shard, num_shards);
    const absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.Open(path);
    if (!file.ok() && !absl::IsNotFound(file.status())) return file.status();
    if (!file.ok() || (*file)->size() < end) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is missing or shorter than the ", end,
                       " bytes that its task reported; all tasks must see one directory"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Shape ShapeOfRows(const Shape& full_shape, RowRange rows) {
  absl::InlinedVector<int64_t, 4> dims(full_shape.dims().begin(), full_shape.dims().end());
  if (!dims.empty()) dims[0] = rows.count;
  return Shape(absl::MakeConstSpan(dims));
}

absl::StatusOr<proto::SavedSlice> DescribeSlice(const std::string& name, const BundleTensor& tensor,
                                                RowRange rows) {
  RETURN_IF_ERROR(CheckTensorName(name));
  RETURN_IF_ERROR(Annotate(CheckSlice(tensor, rows), absl::StrCat("tensor '", name, "'")));
  ASSIGN_OR_RETURN(const int64_t bytes,
                   CheckedBytes(tensor.dtype, ShapeOfRows(tensor.shape, rows).dims()));
  proto::SavedSlice saved;
  saved.set_tensor(name);
  saved.set_dtype(static_cast<int32_t>(tensor.dtype));
  for (const int64_t dim : tensor.shape.dims()) saved.add_full_dims(dim);
  saved.set_row_begin(rows.begin);
  saved.set_row_count(rows.count);
  saved.set_size(bytes);
  return saved;
}

absl::StatusOr<std::unique_ptr<DataShardWriter>> DataShardWriter::Create(FileSystem& files,
                                                                         const std::string& prefix,
                                                                         int shard,
                                                                         int num_shards) {
  if (shard < 0 || shard >= num_shards || num_shards > kBundleShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("data shard ", shard, " of ", num_shards, " of checkpoint ", prefix,
                     ": use 0 <= shard < shards <= ", kBundleShardsMax));
  }
  RETURN_IF_ERROR(CheckNotComplete(files, prefix));
  std::string path = DataShardPath(prefix, shard, num_shards);
  ASSIGN_OR_RETURN(std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  return std::unique_ptr<DataShardWriter>(
      new DataShardWriter(files, prefix, std::move(path), shard, std::move(file)));
}

DataShardWriter::DataShardWriter(FileSystem& files, std::string prefix, std::string path, int shard,
                                 std::unique_ptr<TemporaryFile> file)
    : files_(files),
      prefix_(std::move(prefix)),
      path_(std::move(path)),
      shard_(shard),
      file_(std::move(file)) {}

absl::Status DataShardWriter::Add(const std::string& name, const Shape& full_shape, RowRange rows,
                                  const Tensor& value) {
  absl::StatusOr<proto::SavedSlice> slice = DescribeSlice(name, {value.dtype(), full_shape}, rows);
  if (!slice.ok()) return Annotate(slice.status(), path_);
  // The index entry will declare the shape of the rows `rows` for this slice, so the value must
  // have exactly this shape.
  if (value.shape() != ShapeOfRows(full_shape, rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": tensor '", name, "': a value of shape ", value.shape().ToString(),
                     " is not rows ", rows.begin, "+", rows.count, " of ", full_shape.ToString()));
  }
  const absl::string_view bytes(reinterpret_cast<const char*>(value.raw()), value.num_bytes());
  return Add(*std::move(slice), {bytes});
}

absl::Status DataShardWriter::Add(proto::SavedSlice slice,
                                  absl::Span<const absl::string_view> pieces) {
  uint32_t crc = 0;
  uint64_t size = 0;
  for (absl::string_view rest : pieces) {
    size += rest.size();
    while (!rest.empty()) {
      const absl::string_view piece = rest.substr(0, kAppendBytes);
      crc = ExtendCrc32c(crc, piece);
      RETURN_IF_ERROR(file_->Append(piece));
      rest.remove_prefix(piece.size());
    }
  }
  if (size != static_cast<uint64_t>(slice.size())) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor '", slice.tensor(), "' has ",
                                                   size, " bytes for a slice of ", slice.size()));
  }
  // DescribeSlice could not know the data shard and the offset of the slice. The slice begins at
  // the present end of this shard.
  slice.set_shard(shard_);
  slice.set_offset(static_cast<int64_t>(offset_));
  slice.set_crc32c(crc);
  saved_.push_back(std::move(slice));
  offset_ += size;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<proto::SavedSlice>> DataShardWriter::Finish() {
  RETURN_IF_ERROR(file_->Seal());
  // Create has checked that the prefix has no index. Finish checks this again, because another save
  // of the prefix may have completed since.
  if (absl::Status complete = CheckNotComplete(files_, prefix_); !complete.ok()) {
    file_->Discard();
    return complete;
  }
  RETURN_IF_ERROR(file_->Commit());
  return std::move(saved_);
}

absl::Status WriteIndex(FileSystem& files, const std::string& prefix, int num_shards,
                        absl::Span<const proto::SavedSlice> slices) {
  const std::string path = IndexPath(prefix);
  if (num_shards < 1 || num_shards > kBundleShardsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", num_shards, " data shards; use 1 to ", kBundleShardsMax));
  }
  absl::StatusOr<IndexEntries> entries = EntriesOf(slices, num_shards);
  RETURN_IF_ERROR(Annotate(entries.status(), path));
  // The data shards are checked before the index is written, because the index makes the checkpoint
  // complete.
  RETURN_IF_ERROR(CheckShardsExist(files, prefix, num_shards, slices));
  return WriteFileAtomically(files, path, IndexBytes(*entries, num_shards));
}

}  // namespace cohort
