#include "worker/data/idx.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "worker/data/byte_stream.h"

namespace cohort {

namespace {

absl::Status BadHeader(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      path, ": ", what, "; check that this is the IDX file you meant, or fetch it again"));
}

absl::StatusOr<DType> TypeOfIdx(const std::string& path, unsigned char type) {
  switch (type) {
    case 0x08: return DType::kUint8;
    case 0x09: return DType::kInt8;
    case 0x0c: return DType::kInt32;
    case 0x0d: return DType::kFloat32;
    case 0x0e: return DType::kFloat64;
    default:
      return BadHeader(path, absl::StrCat("IDX element type 0x", absl::Hex(type),
                                          " is not one of 08, 09, 0c, 0d, 0e"));
  }
}

template <typename Word>
Word Reversed(Word word) {
  if constexpr (sizeof(Word) == 4) return __builtin_bswap32(word);
  return __builtin_bswap64(word);
}

template <typename Word>
void ReverseWords(std::byte* data, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, data + i, sizeof(Word));
    word = Reversed(word);
    std::memcpy(data + i, &word, sizeof(Word));
  }
}

struct Header {
  DType dtype = DType::kUndefined;
  Shape shape;
};

absl::StatusOr<Header> ReadHeader(ByteStream& stream, const std::string& path) {
  std::array<unsigned char, 4> magic{};
  RETURN_IF_ERROR(stream.Read(absl::MakeSpan(reinterpret_cast<char*>(magic.data()), 4)));
  if (magic[0] != 0 || magic[1] != 0) {
    const absl::string_view bytes(reinterpret_cast<char*>(magic.data()), magic.size());
    return BadHeader(path, absl::StrCat("starts with ", absl::BytesToHexString(bytes),
                                        ", which is neither IDX nor gzip of IDX"));
  }
  Header header;
  ASSIGN_OR_RETURN(header.dtype, TypeOfIdx(path, magic[2]));
  const int rank = magic[3];
  if (rank < 1 || rank > kIdxRankMax) {
    return BadHeader(path, absl::StrCat("has ", rank, " axes, not 1 to ", kIdxRankMax));
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < rank; ++axis) {
    std::array<unsigned char, 4> be{};
    RETURN_IF_ERROR(stream.Read(absl::MakeSpan(reinterpret_cast<char*>(be.data()), 4)));
    dims.push_back(int64_t{be[0]} << 24 | int64_t{be[1]} << 16 | int64_t{be[2]} << 8 | be[3]);
    if (axis > 0 && dims.back() == 0) return BadHeader(path, "has elements of size 0");
  }
  header.shape = Shape(absl::MakeConstSpan(dims));
  return header;
}

// Bytes of the values, checked against what the file can hold before anything is allocated.
absl::Status CheckSize(const Header& header, const ByteStream& stream, const std::string& path) {
  uint64_t bytes = ElementSize(header.dtype);
  bool overflow = false;
  for (const int64_t dim : header.shape.dims()) {
    overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
  }
  const uint64_t limit = std::min(kIdxBytesMax, stream.max_bytes());
  if (!overflow && bytes <= limit) return absl::OkStatus();
  return BadHeader(path, absl::StrCat("its header says ", DTypeName(header.dtype),
                                      header.shape.ToString(), ", more than the ", limit,
                                      " bytes that this file can hold"));
}

}  // namespace

absl::StatusOr<Tensor> ReadIdx(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, OpenByteStream(files, path));
  ASSIGN_OR_RETURN(const Header header, ReadHeader(*stream, path));
  RETURN_IF_ERROR(CheckSize(header, *stream, path));
  Tensor tensor(header.dtype, header.shape);
  char* const values = reinterpret_cast<char*>(tensor.mutable_raw());
  RETURN_IF_ERROR(stream->Read(absl::MakeSpan(values, tensor.num_bytes())));
  RETURN_IF_ERROR(stream->ExpectEnd());
  const size_t word = ElementSize(header.dtype);
  if (word == 4) ReverseWords<uint32_t>(tensor.mutable_raw(), tensor.num_bytes());
  if (word == 8) ReverseWords<uint64_t>(tensor.mutable_raw(), tensor.num_bytes());
  return tensor;
}

}  // namespace cohort
