#include "common/formats/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"

namespace cohort {

namespace {

using Kind = StoredType::Kind;

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;  // NumPy aligns the elements to this offset

// A reader of the few forms of Python that a header has: a dict with three keys, strings, bools and
// a tuple of numbers. Thread-compatible.
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : text_(text) {}

  absl::Status Parse(NpyHeader& header) {
    if (!Take('{')) return Bad("no dict");
    int keys = 0;
    while (!Take('}')) {
      const std::optional<std::string> key = String();
      if (!key.has_value() || !Take(':')) return Bad("no key");
      RETURN_IF_ERROR(Value(*key, header));
      ++keys;
      if (!Take(',') && Peek() != '}') return Bad("no comma");
    }
    if (keys != 3 || !has_descr_ || !has_order_ || !has_shape_) {
      return Bad("the keys are not descr, fortran_order and shape");
    }
    Peek();
    return text_.empty() ? absl::OkStatus() : Bad("text behind the dict");
  }

 private:
  static absl::Status Bad(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("header of the array: ", what));
  }

  absl::Status Value(const std::string& key, NpyHeader& header) {
    if (key == "descr") {
      has_descr_ = true;
      return Descr(header);
    }
    if (key == "fortran_order") {
      has_order_ = true;
      header.fortran_order = Word("True");
      return header.fortran_order || Word("False") ? absl::OkStatus() : Bad("fortran_order");
    }
    if (key != "shape") return Bad(absl::StrCat("unknown key '", Excerpt(key), "'"));
    has_shape_ = true;
    return Dims(header);
  }

  // Reads the type: a string, or the list of a record's fields, which is kept as text.
  absl::Status Descr(NpyHeader& header) {
    if (Peek() != '[') {
      const std::optional<std::string> descr = String();
      if (!descr.has_value()) return Bad("descr");
      header.descr = *descr;
      return absl::OkStatus();
    }
    size_t end = 0;
    int depth = 0;
    do {
      if (end >= text_.size()) return Bad("descr does not end");
      if (text_[end] == '[') ++depth;
      if (text_[end] == ']') --depth;
      ++end;
    } while (depth > 0);
    header.descr = std::string(text_.substr(0, end));
    text_.remove_prefix(end);
    return absl::OkStatus();
  }

  absl::Status Dims(NpyHeader& header) {
    if (!Take('(')) return Bad("shape");
    std::vector<int64_t> dims;
    while (!Take(')')) {
      Peek();
      size_t digits = 0;
      while (digits < text_.size() &&
             absl::ascii_isdigit(static_cast<unsigned char>(text_[digits])))
        ++digits;
      int64_t dim = 0;
      if (!absl::SimpleAtoi(text_.substr(0, digits), &dim)) return Bad("shape");
      text_.remove_prefix(digits);
      // Python 2 wrote long numbers with an L.
      if (!text_.empty() && text_.front() == 'L') text_.remove_prefix(1);
      if (dims.size() == kStoredRankMax) return Bad("too many axes");
      dims.push_back(dim);
      if (!Take(',') && Peek() != ')') return Bad("shape");
    }
    header.shape = Shape(absl::MakeConstSpan(dims));
    return absl::OkStatus();
  }

  // Returns the next character that is not a space, or 0 at the end. Spaces are dropped.
  char Peek() {
    while (!text_.empty() && absl::ascii_isspace(static_cast<unsigned char>(text_.front()))) {
      text_.remove_prefix(1);
    }
    return text_.empty() ? '\0' : text_.front();
  }
  bool Take(char c) {
    if (Peek() != c || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Word(absl::string_view word) {
    Peek();
    if (!absl::StartsWith(text_, word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = text_.find(quote, 1);
    if (end == absl::string_view::npos) return std::nullopt;
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }

  absl::string_view text_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

// Sets the type of a header from its descr, such as "<f4" or "|b1".
void SetType(NpyHeader& header) {
  const std::string& descr = header.descr;
  if (descr.size() != 3 || !absl::StrContains("<>|=", absl::string_view(&descr[0], 1))) return;
  const int bytes = descr[2] - '0';
  header.type.bytes = bytes;
  header.type.big_endian = descr[0] == '>';
  switch (descr[1]) {
    case 'f':
      header.type.kind = Kind::kFloat;
      break;
    case 'i':
      header.type.kind = Kind::kSigned;
      break;
    case 'u':
      header.type.kind = Kind::kUnsigned;
      break;
    case 'b':
      header.type.kind = Kind::kBool;
      break;
    default:
      return;
  }
  header.supported = DTypeOfStored(header.type) != DType::kUndefined;
}

// Returns the tensor with its axes in reverse order: the row-major form of an array whose elements
// lie in column-major order.
Tensor Reversed(const Tensor& tensor) {
  const absl::Span<const int64_t> dims = tensor.shape().dims();
  const std::vector<int64_t> reversed(dims.rbegin(), dims.rend());
  Tensor out(tensor.dtype(), Shape(absl::MakeConstSpan(reversed)));
  const size_t width = ElementSize(tensor.dtype());
  // The distance in the source of two elements that differ by one along each axis of the result.
  std::vector<int64_t> strides(reversed.size());
  int64_t stride = 1;
  for (size_t axis = 0; axis < reversed.size(); ++axis) {
    strides[axis] = stride;
    stride *= reversed[axis];
  }
  std::vector<int64_t> at(reversed.size(), 0);
  int64_t from = 0;
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    std::memcpy(out.mutable_raw() + static_cast<size_t>(i) * width,
                tensor.raw() + static_cast<size_t>(from) * width, width);
    for (size_t axis = reversed.size(); axis > 0; --axis) {
      from += strides[axis - 1];
      if (++at[axis - 1] < reversed[axis - 1]) break;
      from -= strides[axis - 1] * reversed[axis - 1];
      at[axis - 1] = 0;
    }
  }
  return out;
}

// Returns the dict of a header, or an error for what stands before it.
absl::StatusOr<std::string> HeaderText(const ReadableFile& file, absl::string_view path,
                                       uint64_t& data_begin) {
  std::array<char, 12> begin{};
  const size_t count = static_cast<size_t>(std::min<uint64_t>(file.size(), begin.size()));
  RETURN_IF_ERROR(file.Read(0, absl::Span<char>(begin.data(), count)));
  if (count < 10 || !LooksLikeNpy(file)) return MalformedFile(path, "not an array in .npy format");
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(begin[i])); };
  const uint64_t version = byte(6);
  if (version < 1 || version > 3) {
    return absl::UnimplementedError(absl::StrCat(
        path, ": version ", version, " of the .npy format; save the array with numpy.save"));
  }
  const uint64_t prefix = version == 1 ? 10 : 12;
  uint64_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (count < prefix || length > kNpyHeaderMax || length > file.size() - prefix) {
    return MalformedFile(path, absl::StrCat("a header of ", length, " bytes, above the limit of ",
                                            kNpyHeaderMax, " or the end of the file"));
  }
  std::string text(length, '\0');
  RETURN_IF_ERROR(file.Read(prefix, absl::MakeSpan(text)));
  data_begin = prefix + length;
  return text;
}

}  // namespace

bool LooksLikeNpy(const ReadableFile& file) {
  std::array<char, 6> magic;
  return file.size() >= magic.size() && file.Read(0, absl::MakeSpan(magic)).ok() &&
         absl::string_view(magic.data(), magic.size()) == kMagic;
}

absl::StatusOr<NpyHeader> ReadNpyHeader(const ReadableFile& file, absl::string_view path) {
  NpyHeader header;
  ASSIGN_OR_RETURN(const std::string text, HeaderText(file, path, header.data_begin));
  const absl::Status parsed = HeaderParser(text).Parse(header);
  if (!parsed.ok()) return MalformedFile(path, parsed.message());
  SetType(header);
  // The elements of a type that is not supported may have any size.
  const absl::StatusOr<uint64_t> bytes =
      StoredBytes(header.shape.dims(), header.supported ? header.type.bytes : 1);
  if (!bytes.ok()) return MalformedFile(path, bytes.status().message());
  const uint64_t left = file.size() - header.data_begin;
  if (header.supported && *bytes != left) {
    return MalformedFile(
        path, absl::StrCat("shape ", header.shape.ToString(), " of '", header.descr, "' needs ",
                           *bytes, " bytes, and the file has ", left));
  }
  return header;
}

absl::StatusOr<Tensor> ReadNpy(const ReadableFile& file, const NpyHeader& header,
                               absl::string_view path) {
  if (!header.supported) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": arrays of type ", Excerpt(header.descr),
                     " are not supported; save floats, bools or integers of 8 to 64 bits"));
  }
  Shape shape = header.shape;
  if (header.fortran_order) {
    const absl::Span<const int64_t> dims = header.shape.dims();
    const std::vector<int64_t> reversed(dims.rbegin(), dims.rend());
    shape = Shape(absl::MakeConstSpan(reversed));
  }
  absl::StatusOr<Tensor> tensor = ReadElements(file, header.data_begin, header.type, shape);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return header.fortran_order ? Reversed(*tensor) : *std::move(tensor);
}

absl::StatusOr<std::string> NpyHeaderBytes(const Tensor& tensor) {
  const StoredType type = StoredTypeOf(tensor.dtype());
  if (type.kind == Kind::kBfloat16 || !tensor.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NumPy has no type for ", DTypeName(tensor.dtype()), "; write the tensor as float32"));
  }
  static constexpr char kLetters[] = {'f', '?', 'i', 'u', 'b'};
  std::string text = absl::StrCat("{'descr': '", type.bytes == 1 ? "|" : "<",
                                  std::string(1, kLetters[static_cast<size_t>(type.kind)]),
                                  type.bytes, "', 'fortran_order': False, 'shape': (");
  for (const int64_t dim : tensor.shape().dims()) absl::StrAppend(&text, dim, ", ");
  if (tensor.shape().rank() > 1) text.resize(text.size() - 2);  // only (3,) keeps its comma
  if (tensor.shape().rank() == 1) text.pop_back();
  absl::StrAppend(&text, "), }");
  constexpr size_t kPrefix = 10;
  text.append(kAlignment - 1 - (kPrefix + text.size()) % kAlignment, ' ');
  text.push_back('\n');
  std::string bytes(kMagic);
  bytes += {'\x01', '\0', static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)};
  return bytes + text;
}

}  // namespace cohort
