#include "common/checkpoint/index_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/checkpoint/bundle_format.h"
#include "common/checkpoint/table_reader.h"

namespace cohort {

namespace {

using EntryMap = std::map<std::string, proto::BundleEntryProto>;

// Parses a message. Refuses more than kTableBlockBytesMax bytes, because protobuf takes the size as
// an int.
template <typename Message>
bool Parse(absl::string_view bytes, Message& message) {
  return bytes.size() <= kTableBlockBytesMax &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// Checks by the header of a checkpoint that Cohort can read the checkpoint.
absl::Status CheckHeader(const proto::BundleHeaderProto& header, const std::string& path) {
  if (header.num_shards() < 1 || header.num_shards() > kBundleShardsMax) {
    return DamagedFile(path, absl::StrCat("header names ", header.num_shards(), " data shards"));
  }
  if (header.endianness() != proto::BundleHeaderProto::LITTLE) {
    return absl::UnimplementedError(absl::StrCat(
        path,
        ": written on a big-endian machine; save it again with TensorFlow on a little-endian"
        " one"));
  }
  if (header.version().min_consumer() > kBundleVersion) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": needs a reader of bundle version ", header.version().min_consumer(),
                     ", this one is ", kBundleVersion, "; save it with an older TensorFlow"));
  }
  return absl::OkStatus();
}

// Returns the shape in an index entry. Refuses a shape whose size in bytes is above CheckedBytes'
// limit.
absl::StatusOr<Shape> ShapeOf(const proto::BundleEntryProto& entry, DType dtype) {
  if (entry.shape().unknown_rank()) return absl::InvalidArgumentError("shape of unknown rank");
  std::vector<int64_t> dims;
  for (const proto::BundleShape::Dim& dim : entry.shape().dim()) dims.push_back(dim.size());
  RETURN_IF_ERROR(CheckedBytes(dtype, dims).status());
  return Shape(absl::MakeConstSpan(dims));
}

// Returns the location (data shard, offset, size and checksum) that `entry` gives for the box `box`
// of a tensor. `entry` lists no slices of its own.
absl::StatusOr<StoredSlice> LocationOf(const proto::BundleEntryProto& entry, DType dtype,
                                       SliceBox box, int num_shards) {
  ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(dtype, box.lengths));
  if (entry.shard_id() < 0 || entry.shard_id() >= num_shards) {
    return absl::InvalidArgumentError(
        absl::StrCat("data shard ", entry.shard_id(), " of ", num_shards));
  }
  if (entry.offset() < 0 || entry.size() != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry.size(), " bytes at ", entry.offset(), " where ", bytes, " are needed"));
  }
  return StoredSlice{std::move(box), entry.shard_id(), entry.offset(), entry.size(),
                     UnmaskCrc32c(entry.crc32c())};
}

// Returns the box that `slice` covers in a tensor of shape `shape`. If an axis has no length in
// `slice`, the box covers this axis completely.
SliceBox BoxOf(const proto::BundleSlice& slice, const Shape& shape) {
  SliceBox box;
  for (int axis = 0; axis < slice.extent_size(); ++axis) {
    const proto::BundleSlice::Extent& extent = slice.extent(axis);
    const bool everything =
        extent.has_length_case() == proto::BundleSlice::Extent::HAS_LENGTH_NOT_SET;
    box.starts.push_back(extent.start());
    box.lengths.push_back(everything && axis < shape.rank() ? shape.dim(axis) : extent.length());
  }
  return box;
}

// Returns where one slice of a partitioned tensor is stored. Checks that the slice has an index
// entry, and that this entry has the tensor's type and the shape of `box`.
absl::StatusOr<StoredSlice> FindSlice(const EntryMap& entries, const std::string& name,
                                      const proto::BundleEntryProto& tensor,
                                      const proto::BundleSlice& slice, SliceBox box,
                                      int num_shards) {
  const auto found = entries.find(SliceKey(name, slice));
  if (found == entries.end()) return absl::InvalidArgumentError("a slice has no entry");
  const proto::BundleEntryProto& entry = found->second;
  if (entry.dtype() != tensor.dtype() || entry.slices_size() != 0) {
    return absl::InvalidArgumentError("a slice's entry disagrees with the tensor's");
  }
  const DType dtype = DTypeFromTensorFlow(entry.dtype());
  ASSIGN_OR_RETURN(const Shape shape, ShapeOf(entry, dtype));
  if (shape != Shape(absl::MakeConstSpan(box.lengths))) {
    return absl::InvalidArgumentError("a slice's shape disagrees with its extents");
  }
  return LocationOf(entry, dtype, std::move(box), num_shards);
}

// Returns the tensor that an index entry describes, with the location of each of its slices.
absl::StatusOr<StoredTensor> TensorOf(const EntryMap& entries, const std::string& name,
                                      const proto::BundleEntryProto& entry, int num_shards) {
  StoredTensor tensor;
  tensor.dtype = DTypeFromTensorFlow(entry.dtype());
  ASSIGN_OR_RETURN(tensor.shape, ShapeOf(entry, tensor.dtype));
  if (entry.slices_size() == 0) {
    ASSIGN_OR_RETURN(StoredSlice whole,
                     LocationOf(entry, tensor.dtype, WholeBox(tensor.shape.dims()), num_shards));
    tensor.slices.push_back(std::move(whole));
    return tensor;
  }
  if (entry.slices_size() > kTensorSlicesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry.slices_size(), " slices are above ", kTensorSlicesMax));
  }
  std::vector<SliceBox> boxes;
  for (const proto::BundleSlice& slice : entry.slices())
    boxes.push_back(BoxOf(slice, tensor.shape));
  // The slices must cover the tensor exactly once, so that even a damaged index cannot make the
  // reader use more memory than the tensor needs.
  RETURN_IF_ERROR(CheckBoxesTile(tensor.shape.dims(), boxes));
  for (int i = 0; i < entry.slices_size(); ++i) {
    ASSIGN_OR_RETURN(StoredSlice stored, FindSlice(entries, name, entry, entry.slices(i),
                                                   boxes[static_cast<size_t>(i)], num_shards));
    tensor.slices.push_back(std::move(stored));
  }
  return tensor;
}

// Returns where a tensor of strings lies. Errors: INVALID_ARGUMENT for an entry that cannot be
// read.
absl::StatusOr<StoredStrings> StringsOf(const proto::BundleEntryProto& entry, int num_shards) {
  StoredStrings strings;
  // A string has one byte at least, that of its length.
  ASSIGN_OR_RETURN(const Shape shape, ShapeOf(entry, DType::kUint8));
  strings.count = shape.num_elements();
  strings.shard = entry.shard_id();
  strings.offset = entry.offset();
  strings.size = entry.size();
  strings.crc32c = UnmaskCrc32c(entry.crc32c());
  if (entry.slices_size() != 0 || strings.shard < 0 || strings.shard >= num_shards ||
      strings.offset < 0 || strings.size < strings.count) {
    return absl::InvalidArgumentError("impossible place of strings");
  }
  return strings;
}

// Reads all entries of the index. The entry with the empty key is the header.
absl::Status ReadEntries(const ReadableFile& file, const std::string& path,
                         proto::BundleHeaderProto& header, EntryMap& entries) {
  bool has_header = false;
  RETURN_IF_ERROR(ForEachTableEntry(
      file, path, [&](absl::string_view key, absl::string_view value) -> absl::Status {
        if (key == kBundleHeaderKey) {
          has_header = true;
          if (Parse(value, header)) return CheckHeader(header, path);
          return DamagedFile(path, "malformed header entry");
        }
        if (Parse(value, entries[std::string(key)])) return absl::OkStatus();
        return DamagedFile(path, absl::StrCat("malformed entry of tensor '", key, "'"));
      }));
  return has_header ? absl::OkStatus() : DamagedFile(path, "no header entry");
}

}  // namespace

absl::StatusOr<BundleIndex> ReadIndex(const ReadableFile& file, const std::string& path) {
  proto::BundleHeaderProto header;
  EntryMap entries;
  RETURN_IF_ERROR(ReadEntries(file, path, header, entries));
  BundleIndex index;
  index.num_shards = header.num_shards();
  for (const auto& [name, entry] : entries) {
    // A key that is not a tensor's name is the key of a slice. TensorOf reads the entry of a slice
    // together with the slice's tensor.
    if (!CheckTensorName(name).ok()) continue;
    if (DTypeFromTensorFlow(entry.dtype()) == DType::kUndefined) {
      // The names and types of unsupported tensors are kept for the error that a request for such a
      // tensor gets.
      index.foreign[name] = entry.dtype();
      if (entry.dtype() != kTensorFlowString) continue;
      const absl::StatusOr<StoredStrings> strings = StringsOf(entry, index.num_shards);
      if (strings.ok()) index.strings[name] = *strings;
      continue;
    }
    absl::StatusOr<StoredTensor> tensor = TensorOf(entries, name, entry, index.num_shards);
    if (!tensor.ok()) {
      return DamagedFile(path, absl::StrCat("tensor '", name, "': ", tensor.status().message()));
    }
    index.tensors[name] = *std::move(tensor);
  }
  return index;
}

}  // namespace cohort
