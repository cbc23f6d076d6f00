#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"
#include "common/checkpoint/index_reader.h"
#include "common/checkpoint/row_stream.h"
#include "common/checkpoint/slice_box.h"
#include "common/checkpoint/string_tensor.h"

namespace cohort {

namespace {

// The number of bytes of a slice that are read at a time, so that memory holds only the wanted rows
// and one such buffer.
constexpr int64_t kReadBytes = 1 << 20;

struct DataShard {
  std::string path;
  std::unique_ptr<ReadableFile> file;
  // The sum of the sizes of all slices that lie in this data shard according to the index.
  uint64_t named_bytes = 0;
};

using ShardMap = std::map<int, DataShard>;

// Checks that a slice lies inside its data shard, and that the sizes of all slices of the shard
// together do not exceed the shard's size. Without the second check, slices that share bytes could
// make the reader need more memory than the shard has bytes.
absl::Status CheckSlice(const StoredSlice& slice, DataShard& shard) {
  const uint64_t end = static_cast<uint64_t>(slice.offset) + static_cast<uint64_t>(slice.size);
  if (end > shard.file->size()) {
    return DamagedFile(shard.path, absl::StrCat("ends at byte ", shard.file->size(),
                                                " where the index names byte ", end));
  }
  shard.named_bytes += static_cast<uint64_t>(slice.size);
  if (shard.named_bytes > shard.file->size()) {
    return DamagedFile(shard.path, "the index names more bytes than there are");
  }
  return absl::OkStatus();
}

// Opens each data shard that the index names, and checks that the slices lie inside their data
// shards.
absl::StatusOr<ShardMap> OpenShards(FileSystem& files, const std::string& prefix,
                                    const BundleIndex& index) {
  ShardMap shards;
  for (const auto& [name, tensor] : index.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      DataShard& shard = shards[slice.shard];
      if (shard.file == nullptr) {
        shard.path = DataShardPath(prefix, slice.shard, index.num_shards);
        absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.Open(shard.path);
        // A missing data shard is DATA_LOSS, because the index shows that the checkpoint was
        // complete. NOT_FOUND is only for a missing index.
        if (absl::IsNotFound(file.status())) return DamagedFile(shard.path, "missing");
        RETURN_IF_ERROR(file.status());
        shard.file = *std::move(file);
      }
      RETURN_IF_ERROR(CheckSlice(slice, shard));
    }
  }
  return shards;
}

// Returns true if at least one of `rows` lies in the box.
bool SharesRows(const SliceBox& box, RowRange rows) {
  if (box.starts.empty()) return rows.count > 0;
  return box.starts[0] < rows.begin + rows.count && rows.begin < box.starts[0] + box.lengths[0];
}

// Returns the rows that the box has in common with `rows`, counted from the first row of the box.
RowRange SharedRows(const SliceBox& box, RowRange rows) {
  if (box.starts.empty()) return {0, 1};
  const int64_t begin = std::max(box.starts[0], rows.begin);
  const int64_t end = std::min(box.starts[0] + box.lengths[0], rows.begin + rows.count);
  return {begin - box.starts[0], end - begin};
}

// Returns true if the box is cut only along axis 0, and so has whole rows.
bool HasWholeRows(const SliceBox& box, const Shape& shape) {
  for (size_t axis = 1; axis < box.lengths.size(); ++axis) {
    if (box.lengths[axis] != shape.dim(static_cast<int>(axis))) return false;
  }
  return true;
}

// Reads a whole slice, verifies the slice's checksum and copies the wanted rows to `rows_begin`
// through `copier`.
absl::Status ReadSlice(const DataShard& shard, const StoredSlice& slice, const SliceCopier& copier,
                       char* rows_begin) {
  std::vector<char> piece(static_cast<size_t>(std::min(slice.size, kReadBytes)));
  uint32_t crc = 0;
  for (int64_t position = 0; position < slice.size; position += kReadBytes) {
    const size_t count = static_cast<size_t>(std::min(slice.size - position, kReadBytes));
    const absl::Span<char> bytes(piece.data(), count);
    const absl::Status status =
        shard.file->Read(static_cast<uint64_t>(slice.offset + position), bytes);
    // OpenShards has found the data shard long enough for the slice, so the file must have been
    // truncated since.
    if (absl::IsOutOfRange(status)) return DamagedFile(shard.path, status.message());
    RETURN_IF_ERROR(status);
    crc = ExtendCrc32c(crc, absl::string_view(bytes.data(), bytes.size()));
    copier.Copy(position, bytes, rows_begin);
  }
  if (crc == slice.crc32c) return absl::OkStatus();
  return DamagedFile(shard.path,
                     absl::StrCat("wrong checksum of ", slice.size, " bytes at ", slice.offset));
}

bool AllBools(const Tensor& tensor) {
  return std::all_of(tensor.raw(), tensor.raw() + tensor.num_bytes(),
                     [](std::byte byte) { return byte <= std::byte{1}; });
}

}  // namespace

// The implementation of a BundleReader: the checked index and the opened data shards. Thread-safe.
class BundleReader::Impl {
 public:
  Impl(FileSystem& files, std::string prefix, BundleIndex index, ShardMap shards)
      : files_(files),
        prefix_(std::move(prefix)),
        index_(std::move(index)),
        shards_(std::move(shards)) {
    for (const auto& [name, tensor] : index_.tensors) {
      tensors_[name] = BundleTensor{tensor.dtype, tensor.shape};
    }
  }

  const std::map<std::string, BundleTensor>& tensors() const { return tensors_; }
  const std::map<std::string, int>& left_out() const { return index_.foreign; }

  absl::StatusOr<std::vector<std::string>> ReadStrings(const std::string& name) const {
    const auto found = index_.strings.find(name);
    if (found == index_.strings.end() || found->second.size > kStringTensorBytesMax) {
      const bool exists = index_.foreign.count(name) > 0 || index_.tensors.count(name) > 0;
      const std::string where = absl::StrCat("tensor '", name, "' of checkpoint ", prefix_);
      if (!exists) return absl::NotFoundError(absl::StrCat(where, " does not exist"));
      return absl::UnimplementedError(absl::StrCat(where, " has no strings that can be read"));
    }
    const StoredStrings& stored = found->second;
    // Few checkpoints have strings, so their shard is opened when somebody asks for them.
    const std::string path = DataShardPath(prefix_, stored.shard, index_.num_shards);
    const absl::StatusOr<std::unique_ptr<ReadableFile>> file = files_.Open(path);
    if (absl::IsNotFound(file.status())) return DamagedFile(path, "missing");
    RETURN_IF_ERROR(file.status());
    const uint64_t end = static_cast<uint64_t>(stored.offset) + static_cast<uint64_t>(stored.size);
    if (end > (*file)->size()) return DamagedFile(path, "strings beyond its end");
    std::string bytes(static_cast<size_t>(stored.size), '\0');
    RETURN_IF_ERROR((*file)->Read(static_cast<uint64_t>(stored.offset), absl::MakeSpan(bytes)));
    absl::StatusOr<std::vector<std::string>> strings =
        DecodeStringTensor(bytes, stored.count, stored.crc32c);
    if (strings.ok()) return strings;
    return DamagedFile(path, absl::StrCat("tensor '", name, "': ", strings.status().message()));
  }

  absl::StatusOr<const StoredTensor*> Find(const std::string& name) const {
    const auto found = index_.tensors.find(name);
    if (found != index_.tensors.end()) return &found->second;
    const auto foreign = index_.foreign.find(name);
    if (foreign == index_.foreign.end()) {
      return absl::NotFoundError(absl::StrCat("checkpoint ", prefix_, " has no tensor '", name,
                                              "'; it has ", tensors_.size(), " others"));
    }
    // The checkpoint has a tensor of this name, but Cohort does not support its element type. So
    // the error is UNIMPLEMENTED and not NOT_FOUND.
    return absl::UnimplementedError(
        absl::StrCat("tensor '", name, "' of checkpoint ", prefix_, " has TensorFlow's type ",
                     TensorFlowTypeName(foreign->second), ", which Cohort has not; leave it out"));
  }

  absl::Status CheckRows(const std::string& name, const StoredTensor& stored, RowRange rows) const {
    const int64_t rows_all = stored.shape.rank() == 0 ? 1 : stored.shape.dim(0);
    if (rows.begin < 0 || rows.count < 0 || rows.count > rows_all ||
        rows.begin > rows_all - rows.count || (stored.shape.rank() == 0 && rows.count != 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows ", rows.begin, "+", rows.count, " are not inside tensor '", name, "' ",
                       stored.shape.ToString(), " of checkpoint ", prefix_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> ReadRows(const std::string& name, const StoredTensor& stored,
                                  RowRange rows) const {
    RETURN_IF_ERROR(CheckRows(name, stored, rows));
    absl::InlinedVector<int64_t, 4> dims(stored.shape.dims().begin(), stored.shape.dims().end());
    if (!dims.empty()) dims[0] = rows.count;
    Tensor tensor(stored.dtype, Shape(absl::MakeConstSpan(dims)));
    for (const StoredSlice& slice : stored.slices) {
      if (!SharesRows(slice.box, rows) || slice.size == 0) continue;
      const SliceCopier copier(slice.box, stored.shape.dims(),
                               static_cast<int64_t>(ElementSize(stored.dtype)), rows);
      RETURN_IF_ERROR(Annotate(ReadSlice(shards_.at(slice.shard), slice, copier,
                                         reinterpret_cast<char*>(tensor.mutable_raw())),
                               absl::StrCat("tensor '", name, "'")));
    }
    // In C++, reading a bool whose byte is neither 0 nor 1 is undefined behavior, so other bytes
    // are refused.
    if (tensor.dtype() == DType::kBool && !AllBools(tensor)) {
      return DamagedFile(IndexPath(prefix_),
                         absl::StrCat("tensor '", name, "' is bool but holds other bytes"));
    }
    return tensor;
  }

  absl::StatusOr<std::unique_ptr<RowStream>> StreamRows(const std::string& name,
                                                        const StoredTensor& stored,
                                                        RowRange rows) const {
    RETURN_IF_ERROR(CheckRows(name, stored, rows));
    std::vector<const StoredSlice*> slices;
    for (const StoredSlice& slice : stored.slices) {
      if (slice.size == 0 || !SharesRows(slice.box, rows)) continue;
      if (!HasWholeRows(slice.box, stored.shape)) {
        // A slice that is cut along another axis than the first holds only parts of rows, so the
        // rows are assembled in memory.
        ASSIGN_OR_RETURN(Tensor value, ReadRows(name, stored, rows));
        return std::make_unique<RowStream>(std::move(value));
      }
      slices.push_back(&slice);
    }
    std::sort(slices.begin(), slices.end(), [](const StoredSlice* a, const StoredSlice* b) {
      return a->box.starts < b->box.starts;
    });
    std::vector<RowStream::Part> parts;
    for (const StoredSlice* slice : slices) {
      const DataShard& shard = shards_.at(slice->shard);
      const RowRange part = SharedRows(slice->box, rows);
      const int64_t row = slice->size / (slice->box.lengths.empty() ? 1 : slice->box.lengths[0]);
      parts.push_back({shard.file.get(), shard.path, slice->offset, slice->size, slice->crc32c,
                       part.begin * row, (part.begin + part.count) * row});
    }
    return std::make_unique<RowStream>(stored.dtype, std::move(parts));
  }

 private:
  FileSystem& files_;
  const std::string prefix_;
  const BundleIndex index_;
  const ShardMap shards_;
  std::map<std::string, BundleTensor> tensors_;
};

BundleReader::BundleReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BundleReader::~BundleReader() = default;

absl::StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(FileSystem& files,
                                                                 const std::string& prefix) {
  const std::string path = IndexPath(prefix);
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  // The index says which data shards there are, so the index is read and checked first.
  ASSIGN_OR_RETURN(BundleIndex index, ReadIndex(*file, path));
  ASSIGN_OR_RETURN(ShardMap shards, OpenShards(files, prefix, index));
  return std::unique_ptr<BundleReader>(
      new BundleReader(std::make_unique<Impl>(files, prefix, std::move(index), std::move(shards))));
}

SliceStarts SliceStartsOf(const std::map<std::string, BundleTensor>& tensors) {
  SliceStarts starts;
  for (const auto& [name, tensor] : tensors) {
    const size_t at = name.find(kAppliedInfix);
    int64_t row = 0;
    if (at == std::string::npos ||
        !absl::SimpleAtoi(name.substr(at + sizeof(kAppliedInfix) - 1), &row)) {
      continue;
    }
    starts[name.substr(0, at)].push_back(row);
  }
  // The order of the names is not that of the rows: "10" comes before "9".
  for (auto& [variable, rows] : starts) std::sort(rows.begin(), rows.end());
  return starts;
}

const std::map<std::string, BundleTensor>& BundleReader::tensors() const {
  return impl_->tensors();
}

const std::map<std::string, int>& BundleReader::left_out() const { return impl_->left_out(); }

absl::StatusOr<std::vector<std::string>> BundleReader::ReadStrings(const std::string& name) const {
  return impl_->ReadStrings(name);
}

absl::StatusOr<Tensor> BundleReader::Read(const std::string& name) const {
  ASSIGN_OR_RETURN(const StoredTensor* stored, impl_->Find(name));
  return impl_->ReadRows(name, *stored, {0, stored->shape.rank() == 0 ? 1 : stored->shape.dim(0)});
}

absl::StatusOr<Tensor> BundleReader::ReadRows(const std::string& name, RowRange rows) const {
  ASSIGN_OR_RETURN(const StoredTensor* stored, impl_->Find(name));
  return impl_->ReadRows(name, *stored, rows);
}

absl::StatusOr<std::unique_ptr<RowStream>> BundleReader::StreamRows(const std::string& name,
                                                                    RowRange rows) const {
  ASSIGN_OR_RETURN(const StoredTensor* stored, impl_->Find(name));
  return impl_->StreamRows(name, *stored, rows);
}

}  // namespace cohort
