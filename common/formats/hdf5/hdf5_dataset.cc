#include "common/formats/hdf5/hdf5_dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr absl::string_view kRemedy = "; save the file with h5py's default libver";

// The numbers of the classes of layouts.
enum LayoutClass : uint64_t { kCompact = 0, kContiguous = 1, kChunked = 2, kVirtual = 3 };

// Reads the sizes of a chunk, of which the last is that of an element.
absl::Status ParseChunk(const Hdf5Source& source, Hdf5Bytes& in, uint64_t count, uint64_t width,
                        Hdf5Layout& layout) {
  if (count < 2 || count > kStoredRankMax + 1) return source.Malformed("chunks without axes");
  for (uint64_t axis = 0; axis < count; ++axis) layout.chunk.push_back(in.Take(width));
  layout.chunk.pop_back();
  return absl::OkStatus();
}

absl::Status ParseChunks3(const Hdf5Source& source, Hdf5Bytes& in, Hdf5Layout& layout) {
  layout.kind = Hdf5Layout::Kind::kChunks;
  const uint64_t count = in.Take(1);
  layout.address = in.Take(8);
  return ParseChunk(source, in, count, 4, layout);
}

// Versions 4 and 5 (of HDF5 2.0, for larger chunks) have an index of their own for each way in
// which a dataset may grow. Of these only the dataset that is one chunk is read.
absl::Status ParseChunks4(const Hdf5Source& source, Hdf5Bytes& in, Hdf5Layout& layout) {
  layout.kind = Hdf5Layout::Kind::kOneChunk;
  const uint64_t flags = in.Take(1);
  const uint64_t count = in.Take(1);
  const uint64_t width = in.Take(1);
  if (width == 0 || width > 8) return source.Malformed("chunks of impossible sizes");
  RETURN_IF_ERROR(ParseChunk(source, in, count, width, layout));
  constexpr uint64_t kSingle = 1;
  if (in.Take(1) != kSingle) {
    return source.Unsupported(absl::StrCat("a dataset in chunks of HDF5 1.10", kRemedy));
  }
  constexpr uint64_t kFiltered = 2;
  if ((flags & kFiltered) != 0) {
    layout.stored_bytes = in.Take(8);
    if (in.Take(4) != 0) layout.filters.clear();  // the only chunk was stored without filters
  } else {
    layout.stored_bytes = kHdf5NoAddress;
  }
  layout.address = in.Take(8);
  return absl::OkStatus();
}

absl::Status ParseLayout(const Hdf5Source& source, const std::string& message, Hdf5Layout& layout) {
  Hdf5Bytes in(message);
  const uint64_t version = in.Take(1);
  const uint64_t layout_class = in.Take(1);
  if (version < 3 || version > 5) {
    return source.Unsupported(absl::StrCat("a dataset's layout of version ", version, kRemedy));
  }
  switch (layout_class) {
    case kCompact:
      layout.kind = Hdf5Layout::Kind::kCompact;
      layout.elements = std::string(in.TakeBytes(in.Take(2)));
      break;
    case kContiguous:
      layout.kind = Hdf5Layout::Kind::kContiguous;
      layout.address = in.Take(8);
      layout.stored_bytes = in.Take(8);
      break;
    case kChunked:
      RETURN_IF_ERROR(version == 3 ? ParseChunks3(source, in, layout)
                                   : ParseChunks4(source, in, layout));
      break;
    case kVirtual:
      return source.Unsupported(
          "a virtual dataset, whose elements lie in other files; copy them "
          "into the file");
    default:
      return source.Malformed("an unknown layout of a dataset");
  }
  return in.ok() ? absl::OkStatus() : source.Malformed("a layout that does not end");
}

absl::Status ParseFilters(const Hdf5Source& source, const std::string& message,
                          std::vector<uint16_t>& filters) {
  Hdf5Bytes in(message);
  const uint64_t version = in.Take(1);
  const uint64_t count = in.Take(1);
  if (version == 1) in.Skip(6);
  if (version != 1 && version != 2) return source.Unsupported("filters of another version");
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t id = in.Take(2);
    constexpr uint64_t kNamedIds = 256;  // version 2 names filters from this number on alone
    const uint64_t name = version == 1 || id >= kNamedIds ? in.Take(2) : 0;
    in.Skip(2);
    const uint64_t values = in.Take(2);
    in.Skip(version == 1 ? (name + 7) / 8 * 8 : name);
    in.Skip(4 * values);
    if (version == 1 && values % 2 == 1) in.Skip(4);
    filters.push_back(static_cast<uint16_t>(id));
  }
  return in.ok() ? absl::OkStatus() : source.Malformed("filters that do not end");
}

// Reads one message of the object header into `dataset`. Messages may come in any order.
absl::Status ParseMessage(Hdf5Source& source, const Hdf5Message& message, Hdf5Dataset& dataset,
                          bool& has_elements) {
  Hdf5Bytes in(message.body);
  switch (message.type) {
    case Hdf5MessageType::kDatatype: {
      if (message.shared) return source.Unsupported(absl::StrCat("a type with a name", kRemedy));
      ASSIGN_OR_RETURN(dataset.type, ParseHdf5Type(source, in));
      return absl::OkStatus();
    }
    case Hdf5MessageType::kDataspace: {
      if (message.shared) return source.Unsupported(absl::StrCat("a shared shape", kRemedy));
      ASSIGN_OR_RETURN(const Hdf5Space space, ParseHdf5Space(source, in));
      dataset.shape = Shape(absl::MakeConstSpan(space.dims));
      has_elements = space.has_elements;
      return absl::OkStatus();
    }
    case Hdf5MessageType::kExternalFiles:
      return source.Unsupported(
          "a dataset whose elements lie in other files; copy them into the "
          "file");
    case Hdf5MessageType::kLayout:
      if (message.shared) return source.Unsupported(absl::StrCat("a shared layout", kRemedy));
      return ParseLayout(source, message.body, dataset.layout);
    default:
      return absl::OkStatus();
  }
}

}  // namespace

absl::StatusOr<Hdf5Dataset> ParseHdf5Dataset(Hdf5Source& source,
                                             const std::vector<Hdf5Message>& messages) {
  Hdf5Dataset dataset;
  bool has_elements = true;
  // Filters are read first, because the message with the layout may say that they were not used.
  for (const Hdf5Message& message : messages) {
    if (message.type != Hdf5MessageType::kFilters) continue;
    if (message.shared) return source.Unsupported(absl::StrCat("shared filters", kRemedy));
    RETURN_IF_ERROR(ParseFilters(source, message.body, dataset.layout.filters));
  }
  for (const Hdf5Message& message : messages) {
    RETURN_IF_ERROR(ParseMessage(source, message, dataset, has_elements));
  }
  if (!has_elements) {
    dataset.type.kind = Hdf5Type::Kind::kOther;
    dataset.type.name = "nothing";
  }
  // Types that are not supported may have any width: 1 is enough to bound the shape.
  const bool is_number = dataset.type.kind == Hdf5Type::Kind::kNumber;
  const absl::StatusOr<uint64_t> bytes =
      StoredBytes(dataset.shape.dims(), is_number ? dataset.type.stored.bytes : 1);
  if (!bytes.ok()) return source.Malformed(bytes.status().message());
  return dataset;
}

}  // namespace cohort
