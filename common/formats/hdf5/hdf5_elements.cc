#include "common/formats/hdf5/hdf5_elements.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/hdf5/hdf5_chunks.h"
#include "common/formats/stored_elements.h"

namespace cohort {

absl::StatusOr<Tensor> ReadHdf5Dataset(Hdf5Source& source, const Hdf5Dataset& dataset) {
  const Hdf5Type& type = dataset.type;
  const Hdf5Layout& layout = dataset.layout;
  if (type.kind != Hdf5Type::Kind::kNumber) {
    return source.Unsupported(
        absl::StrCat("elements of type ", type.name, " are not supported; save numbers or bools"));
  }
  ASSIGN_OR_RETURN(const uint64_t bytes, StoredBytes(dataset.shape.dims(), type.stored.bytes));
  const auto checked = [&](absl::StatusOr<Tensor> tensor) -> absl::StatusOr<Tensor> {
    if (absl::IsOutOfRange(tensor.status()) || absl::IsInvalidArgument(tensor.status())) {
      return source.Malformed(tensor.status().message());
    }
    return tensor;
  };
  switch (layout.kind) {
    case Hdf5Layout::Kind::kCompact:
      return checked(
          DecodeElements(absl::Span<const char>(layout.elements.data(), layout.elements.size()),
                         type.stored, dataset.shape));
    case Hdf5Layout::Kind::kContiguous:
      if (bytes == 0) return Tensor(DTypeOfStored(type.stored), dataset.shape);
      if (layout.address == kHdf5NoAddress) return source.Malformed("elements were never written");
      if (layout.stored_bytes != bytes || layout.address > source.size()) {
        return source.Malformed(absl::StrCat(layout.stored_bytes, " bytes where shape ",
                                             dataset.shape.ToString(), " needs ", bytes));
      }
      return checked(
          ReadElements(source.file(), source.base() + layout.address, type.stored, dataset.shape));
    case Hdf5Layout::Kind::kChunks:
    case Hdf5Layout::Kind::kOneChunk:
      break;
  }
  if (bytes == 0) return Tensor(DTypeOfStored(type.stored), dataset.shape);
  ASSIGN_OR_RETURN(const std::vector<char> elements, ReadHdf5Chunks(source, dataset, bytes));
  return checked(DecodeElements(elements, type.stored, dataset.shape));
}

}  // namespace cohort
