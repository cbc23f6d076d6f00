#include "worker/data/idx.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
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

// The type byte of 16-bit integers. Tensors have no such type, so 16-bit integers are read as
// int32.
constexpr unsigned char kShorts = 0x0b;

// Returns the type of the tensor for the type byte of an IDX file. Errors: DATA_LOSS for an unknown
// type byte.
absl::StatusOr<DType> TypeOfIdx(const std::string& path, unsigned char type) {
  switch (type) {
    case 0x08:
      return DType::kUint8;
    case 0x09:
      return DType::kInt8;
    case kShorts:
      return DType::kInt32;
    case 0x0c:
      return DType::kInt32;
    case 0x0d:
      return DType::kFloat32;
    case 0x0e:
      return DType::kFloat64;
    default:
      return BadHeader(path, absl::StrCat("IDX element type 0x", absl::Hex(type),
                                          " is not one of 08, 09, 0b, 0c, 0d, 0e"));
  }
}

template <typename Word>
Word Reversed(Word word) {
  if constexpr (sizeof(Word) == 4) return __builtin_bswap32(word);
  return __builtin_bswap64(word);
}

// Converts big-endian words to little-endian ones, in place. `data` need not be aligned.
template <typename Word>
void ReverseWords(std::byte* data, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, data + i, sizeof(Word));
    word = Reversed(word);
    std::memcpy(data + i, &word, sizeof(Word));
  }
}

// Converts big-endian 16-bit integers to int32. `in` may be the second half of `out`: each value is
// read before its bytes are overwritten.
void WidenShorts(const std::byte* in, int32_t* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto high = std::to_integer<uint32_t>(in[2 * i]);
    const auto low = std::to_integer<uint32_t>(in[2 * i + 1]);
    out[i] = static_cast<int16_t>(high << 8 | low);
  }
}

struct Header {
  DType dtype = DType::kUndefined;  // type of the values in the tensor
  size_t word = 0;                  // size of one value in the file, in bytes
  Shape shape;

  // Returns the offset of the first value in a plain file.
  uint64_t size() const { return 4 + 4 * static_cast<uint64_t>(shape.rank()); }
};

absl::StatusOr<Header> ReadHeader(ByteStream& stream, const std::string& path) {
  std::array<unsigned char, 4> magic{};
  RETURN_IF_ERROR(stream.Read(absl::MakeSpan(reinterpret_cast<char*>(magic.data()), 4)));
  // A file in another format fails this check, so the message shows the file's first bytes.
  if (magic[0] != 0 || magic[1] != 0) {
    const absl::string_view bytes(reinterpret_cast<char*>(magic.data()), magic.size());
    return BadHeader(path, absl::StrCat("starts with ", absl::BytesToHexString(bytes),
                                        ", which is neither IDX nor gzip of IDX"));
  }
  Header header;
  ASSIGN_OR_RETURN(header.dtype, TypeOfIdx(path, magic[2]));
  header.word = magic[2] == kShorts ? 2 : ElementSize(header.dtype);
  const int rank = magic[3];
  if (rank < 1 || rank > kIdxRankMax) {
    return BadHeader(path, absl::StrCat("has ", rank, " axes, not 1 to ", kIdxRankMax));
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < rank; ++axis) {
    std::array<unsigned char, 4> be{};
    RETURN_IF_ERROR(stream.Read(absl::MakeSpan(reinterpret_cast<char*>(be.data()), 4)));
    dims.push_back(int64_t{be[0]} << 24 | int64_t{be[1]} << 16 | int64_t{be[2]} << 8 | be[3]);
    // Axis 0 may be 0, for a file without elements. No other axis may be 0.
    if (axis > 0 && dims.back() == 0) return BadHeader(path, "has elements of size 0");
  }
  header.shape = Shape(absl::MakeConstSpan(dims));
  return header;
}

// Checks that the file can hold as many values as its header says, before memory is allocated for
// them. Errors: DATA_LOSS for more values than this or more than kIdxBytesMax bytes of tensor.
absl::Status CheckSize(const Header& header, const ByteStream& stream, const std::string& path) {
  uint64_t bytes = header.word;
  bool overflow = false;
  for (const int64_t dim : header.shape.dims()) {
    overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
  }
  // A tensor of 16-bit integers takes twice the bytes that the file has, because it is int32.
  const uint64_t tensors = kIdxBytesMax / (ElementSize(header.dtype) / header.word);
  const uint64_t limit = std::min(tensors, stream.max_bytes());
  if (!overflow && bytes <= limit) return absl::OkStatus();
  return BadHeader(
      path, absl::StrCat("its header says ", DTypeName(header.dtype), header.shape.ToString(),
                         ", more than the ", limit, " bytes that this file can hold"));
}

}  // namespace

absl::StatusOr<Tensor> ReadIdx(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, OpenByteStream(files, path));
  ASSIGN_OR_RETURN(const Header header, ReadHeader(*stream, path));
  RETURN_IF_ERROR(CheckSize(header, *stream, path));
  Tensor tensor(header.dtype, header.shape);
  const size_t bytes = static_cast<size_t>(header.shape.num_elements()) * header.word;
  // Values that are narrower in the file than in the tensor are read into the second half of the
  // tensor, and widened from there.
  std::byte* const values = tensor.mutable_raw() + (tensor.num_bytes() - bytes);
  RETURN_IF_ERROR(stream->Read(absl::MakeSpan(reinterpret_cast<char*>(values), bytes)));
  // The checksum of a gzip file is verified before any value is used.
  RETURN_IF_ERROR(stream->ExpectEnd());
  if (header.word == 2) WidenShorts(values, tensor.mutable_data<int32_t>(), tensor.num_elements());
  if (header.word == 4) ReverseWords<uint32_t>(values, bytes);
  if (header.word == 8) ReverseWords<uint64_t>(values, bytes);
  return tensor;
}

absl::StatusOr<std::shared_ptr<const RowFile>> OpenLargeIdx(FileSystem& files,
                                                            const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path));
  // gzip's magic number; an IDX file begins with two zeros.
  std::array<char, 2> magic{};
  if (file->size() <= kArrayInMemoryMax) return nullptr;
  RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(magic)));
  if (magic[0] == '\x1f' && magic[1] == '\x8b') return nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, OpenByteStream(files, path));
  ASSIGN_OR_RETURN(const Header header, ReadHeader(*stream, path));
  StoredArray array;
  array.type.bytes = static_cast<int>(header.word);
  array.type.big_endian = true;
  const bool is_float = header.dtype == DType::kFloat32 || header.dtype == DType::kFloat64;
  array.type.kind = is_float                        ? StoredType::Kind::kFloat
                    : header.dtype == DType::kUint8 ? StoredType::Kind::kUnsigned
                                                    : StoredType::Kind::kSigned;
  array.shape = header.shape;
  array.begin = header.size();
  const absl::StatusOr<uint64_t> bytes = StoredBytes(array.shape.dims(), array.type.bytes);
  if (!bytes.ok() || array.begin + *bytes != file->size()) {
    return BadHeader(path, absl::StrCat("its header says ", DTypeName(header.dtype),
                                        header.shape.ToString(), ", which is not the ",
                                        file->size() - array.begin, " bytes that follow it"));
  }
  return RowFile::Make(std::move(file), path, std::move(array));
}

}  // namespace cohort
