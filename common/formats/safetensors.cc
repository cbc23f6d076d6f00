#include "common/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/temporary_file.h"
#include "common/formats/safetensors_header.h"
#include "common/formats/stored_elements.h"

namespace cohort {

namespace {

using Kind = StoredType::Kind;

constexpr uint64_t kLengthBytes = 8;
constexpr size_t kHeaderAlignment = 8;

// An element type of the format. For a type that tensors do not have, only the width is known: such
// a tensor is listed, but cannot be read.
struct FormatType {
  absl::string_view name;
  int bytes;
  std::optional<Kind> kind;
};

constexpr std::array<FormatType, 16> kTypes = {{{"F32", 4, Kind::kFloat},
                                                {"F16", 2, Kind::kFloat},
                                                {"BF16", 2, Kind::kBfloat16},
                                                {"F64", 8, Kind::kFloat},
                                                {"I64", 8, Kind::kSigned},
                                                {"I32", 4, Kind::kSigned},
                                                {"I16", 2, Kind::kSigned},
                                                {"I8", 1, Kind::kSigned},
                                                {"U64", 8, Kind::kUnsigned},
                                                {"U32", 4, Kind::kUnsigned},
                                                {"U16", 2, Kind::kUnsigned},
                                                {"U8", 1, Kind::kUnsigned},
                                                {"BOOL", 1, Kind::kBool},
                                                {"F8_E4M3", 1, std::nullopt},
                                                {"F8_E5M2", 1, std::nullopt},
                                                {"C64", 8, std::nullopt}}};

const FormatType* FindType(absl::string_view name) {
  for (const FormatType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

// Returns the format's name of a tensor's type, or "" if the format has none.
absl::string_view NameOfType(DType dtype) {
  const StoredType stored = StoredTypeOf(dtype);
  for (const FormatType& type : kTypes) {
    if (type.kind == stored.kind && type.bytes == stored.bytes) return type.name;
  }
  return "";
}

// Returns the length that the first bytes give to the header, or 0 if the file is too short for it.
uint64_t HeaderLength(const ReadableFile& file) {
  std::array<char, kLengthBytes> bytes;
  if (file.size() < kLengthBytes || !file.Read(0, absl::MakeSpan(bytes)).ok()) return 0;
  uint64_t length = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length <= file.size() - kLengthBytes ? length : 0;
}

// An open safetensors file. Thread-safe.
class SafetensorsFile final : public TensorFile {
 public:
  SafetensorsFile(std::unique_ptr<ReadableFile> file, std::string path, uint64_t data_begin)
      : file_(std::move(file)), path_(std::move(path)), data_begin_(data_begin) {}

  // Checks the header's entries against the file and each other, and takes them over.
  absl::Status Init(std::vector<SafetensorsEntry> entries) {
    for (const SafetensorsEntry& entry : entries) RETURN_IF_ERROR(Add(entry));
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t end = 0;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.begin != end) {
        return MalformedFile(path_, absl::StrCat("tensor '", Excerpt(entry.name), "' begins at ",
                                                 entry.begin, " where ", end, " was expected"));
      }
      end = entry.end;
    }
    if (end == file_->size() - data_begin_) return absl::OkStatus();
    return MalformedFile(path_, absl::StrCat("the file has ", file_->size() - data_begin_,
                                             " bytes of tensors where its header names ", end));
  }

  const std::vector<FileTensor>& tensors() const override { return tensors_; }

  absl::StatusOr<Tensor> Read(size_t index) const override {
    const FileTensor& tensor = tensors_[index];
    const std::string where = absl::StrCat(path_, ": tensor '", Excerpt(tensor.name), "'");
    const FormatType& type = *types_[index];
    if (!type.kind.has_value()) {
      return absl::UnimplementedError(absl::StrCat(where, " has type ", type.name,
                                                   ", which Cohort does not support; save it as "
                                                   "F32, F16 or BF16"));
    }
    absl::StatusOr<Tensor> value = ReadElements(*file_, data_begin_ + begins_[index],
                                                {*type.kind, type.bytes, false}, tensor.shape);
    if (!value.ok()) return Annotate(value.status(), where);
    return value;
  }

 private:
  absl::Status Add(const SafetensorsEntry& entry) {
    const std::string name = Excerpt(entry.name);
    const FormatType* const type = FindType(entry.dtype);
    if (type == nullptr) {
      return absl::UnimplementedError(absl::StrCat(path_, ": tensor '", name,
                                                   "' has the unknown type '", Excerpt(entry.dtype),
                                                   "'; save it as F32, F16 or BF16"));
    }
    const absl::StatusOr<uint64_t> bytes = StoredBytes(entry.shape, type->bytes);
    if (!bytes.ok()) {
      return MalformedFile(path_, absl::StrCat("tensor '", name, "': ", bytes.status().message()));
    }
    if (entry.end < entry.begin || entry.end - entry.begin != *bytes) {
      return MalformedFile(
          path_, absl::StrCat("tensor '", name, "' has the bytes ", entry.begin, " to ", entry.end,
                              " where its shape needs ", *bytes));
    }
    const DType dtype = type->kind.has_value() ? DTypeOfStored({*type->kind, type->bytes, false})
                                               : DType::kUndefined;
    tensors_.push_back({entry.name, dtype, Shape(absl::MakeConstSpan(entry.shape)), entry.dtype});
    begins_.push_back(entry.begin);
    types_.push_back(type);
    return absl::OkStatus();
  }

  const std::unique_ptr<ReadableFile> file_;
  const std::string path_;
  const uint64_t data_begin_;
  std::vector<FileTensor> tensors_;
  std::vector<uint64_t> begins_;  // offset of each tensor's bytes behind the header
  std::vector<const FormatType*> types_;
};

// Returns the order in which tensors are written.
std::vector<size_t> WritingOrder(absl::Span<const NamedTensor> tensors) {
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const size_t width_a = ElementSize(tensors[a].value.dtype());
    const size_t width_b = ElementSize(tensors[b].value.dtype());
    return width_a != width_b ? width_a > width_b : tensors[a].name < tensors[b].name;
  });
  return order;
}

absl::Status CheckNames(absl::Span<const NamedTensor> tensors) {
  std::set<absl::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == kSafetensorsMetadataKey) {
      return absl::InvalidArgumentError(absl::StrCat("safetensors keeps the name '",
                                                     kSafetensorsMetadataKey,
                                                     "' for itself; rename the tensor"));
    }
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", Excerpt(tensor.name), "' is given twice"));
    }
    if (NameOfType(tensor.value.dtype()).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", Excerpt(tensor.name), "' has no value"));
    }
  }
  return absl::OkStatus();
}

// Returns `text` as a JSON string. Errors: INVALID_ARGUMENT if it is not UTF-8.
absl::StatusOr<std::string> Quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat("'", Excerpt(text), "' is not UTF-8"));
  }
}

absl::StatusOr<std::string> MetadataText(const SafetensorsMetadata& metadata) {
  std::string text = absl::StrCat("\"", kSafetensorsMetadataKey, "\":{");
  const char* separator = "";
  for (const auto& [key, value] : metadata) {
    ASSIGN_OR_RETURN(const std::string quoted_key, Quoted(key));
    ASSIGN_OR_RETURN(const std::string quoted_value, Quoted(value));
    absl::StrAppend(&text, separator, quoted_key, ":", quoted_value);
    separator = ",";
  }
  return absl::StrCat(text, "}");
}

// Returns the length and the header of a file with these tensors in this order.
absl::StatusOr<std::string> HeaderOf(absl::Span<const NamedTensor> tensors,
                                     const std::vector<size_t>& order,
                                     const SafetensorsMetadata& metadata) {
  std::vector<std::string> parts;
  if (!metadata.empty()) {
    ASSIGN_OR_RETURN(std::string part, MetadataText(metadata));
    parts.push_back(std::move(part));
  }
  uint64_t offset = 0;
  for (const size_t index : order) {
    const Tensor& value = tensors[index].value;
    ASSIGN_OR_RETURN(const std::string name, Quoted(tensors[index].name));
    parts.push_back(absl::StrCat(name, ":{\"dtype\":\"", NameOfType(value.dtype()),
                                 "\",\"shape\":", value.shape().ToString(), ",\"data_offsets\":[",
                                 offset, ",", offset + value.num_bytes(), "]}"));
    offset += value.num_bytes();
  }
  std::string text = absl::StrCat("{", absl::StrJoin(parts, ","), "}");
  // Spaces behind the JSON align the tensors in the file.
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  if (text.size() > kSafetensorsHeaderMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the header has ", text.size(), " bytes, and the format allows ", kSafetensorsHeaderMax));
  }
  std::string out;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i)));
  }
  return out + text;
}

}  // namespace

bool LooksLikeSafetensors(const ReadableFile& file) {
  char brace = 0;
  return HeaderLength(file) > 0 && file.Read(kLengthBytes, absl::MakeSpan(&brace, 1)).ok() &&
         brace == '{';
}

absl::StatusOr<std::unique_ptr<TensorFile>> OpenSafetensors(std::unique_ptr<ReadableFile> file,
                                                            const std::string& path,
                                                            SafetensorsMetadata* metadata) {
  const uint64_t length = HeaderLength(*file);
  if (length == 0) {
    return MalformedFile(path, "no safetensors header, or one that is longer than the file");
  }
  if (length > kSafetensorsHeaderMax) {
    return MalformedFile(path, absl::StrCat("a safetensors header of ", length,
                                            " bytes, above the limit of ", kSafetensorsHeaderMax));
  }
  std::string text(length, '\0');
  RETURN_IF_ERROR(file->Read(kLengthBytes, absl::MakeSpan(text)));
  if (text[0] != '{') return MalformedFile(path, "the safetensors header does not begin with '{'");
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(text);
  if (!header.ok()) return MalformedFile(path, header.status().message());
  if (metadata != nullptr) *metadata = std::move(header->metadata);
  auto opened = std::make_unique<SafetensorsFile>(std::move(file), path, kLengthBytes + length);
  RETURN_IF_ERROR(opened->Init(std::move(header->entries)));
  return opened;
}

absl::Status WriteSafetensors(FileSystem& files, const std::string& path,
                              absl::Span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata) {
  RETURN_IF_ERROR(CheckNames(tensors));
  const std::vector<size_t> order = WritingOrder(tensors);
  ASSIGN_OR_RETURN(const std::string header, HeaderOf(tensors, order, metadata));
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  RETURN_IF_ERROR(file->Append(header));
  for (const size_t index : order) {
    const Tensor& value = tensors[index].value;
    if (value.num_bytes() == 0) continue;
    RETURN_IF_ERROR(file->Append(
        absl::string_view(reinterpret_cast<const char*>(value.raw()), value.num_bytes())));
  }
  RETURN_IF_ERROR(file->Seal());
  return file->Commit();
}

}  // namespace cohort
