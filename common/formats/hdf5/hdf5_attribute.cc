#include "common/formats/hdf5/hdf5_attribute.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/hdf5/hdf5_heap.h"
#include "common/formats/hdf5/hdf5_type.h"

namespace cohort {

namespace {

constexpr size_t kReferenceBytes = 16;  // a variable string's length, heap and number

// Returns the text without the filling behind it. Only spaces and NULs at the end are filling,
// except in a null-terminated string, which ends at its first NUL.
std::string WithoutPadding(absl::string_view text, Hdf5Type::Padding padding) {
  if (padding == Hdf5Type::Padding::kSpaces) {
    return std::string(text.substr(0, text.find_last_not_of(' ') + 1));
  }
  if (padding == Hdf5Type::Padding::kNulls) {
    return std::string(text.substr(0, text.find_last_not_of('\0') + 1));
  }
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace

absl::StatusOr<std::vector<Hdf5Attribute>> Hdf5AttributeReader::Read(
    const std::vector<Hdf5Message>& messages) {
  std::vector<Hdf5Attribute> attributes;
  for (const Hdf5Message& message : messages) {
    // An object with many attributes keeps them in a heap, which this message names.
    if (message.type == Hdf5MessageType::kAttributeInfo) {
      RETURN_IF_ERROR(ReadDense(message.body, attributes));
    }
    if (message.type != Hdf5MessageType::kAttribute) continue;
    if (message.shared) return source_.Unsupported("a shared attribute");
    ASSIGN_OR_RETURN(Hdf5Attribute attribute, Parse(message.body));
    attributes.push_back(std::move(attribute));
  }
  return attributes;
}

absl::Status Hdf5AttributeReader::ReadDense(const std::string& message,
                                            std::vector<Hdf5Attribute>& attributes) {
  Hdf5Bytes in(message);
  in.Skip(1);
  const uint64_t flags = in.Take(1);
  if ((flags & 1) != 0) in.Skip(2);  // the highest number of an attribute
  const uint64_t heap_address = in.Take(8);
  const uint64_t tree = in.Take(8);
  if (!in.ok()) return source_.Malformed("attributes that do not end");
  if (heap_address == kHdf5NoAddress) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Hdf5Heap heap, Hdf5Heap::Open(source_, heap_address));
  ASSIGN_OR_RETURN(const std::vector<std::string> records, ReadHdf5Tree(source_, tree));
  for (const std::string& record : records) {
    Hdf5Bytes of_record(record);
    const absl::string_view id = of_record.TakeBytes(heap.id_bytes());
    constexpr uint64_t kShared = 2;
    if ((of_record.Take(1) & kShared) != 0) return source_.Unsupported("a shared attribute");
    if (!of_record.ok()) return source_.Malformed("a record that is too short");
    ASSIGN_OR_RETURN(const std::string object, heap.Read(source_, id));
    ASSIGN_OR_RETURN(Hdf5Attribute attribute, Parse(object));
    attributes.push_back(std::move(attribute));
  }
  return absl::OkStatus();
}

// Reads the body of an attribute's message. Version 1 fills name, type and shape up to a multiple
// of 8 bytes each.
absl::StatusOr<Hdf5Attribute> Hdf5AttributeReader::Parse(absl::string_view message) {
  Hdf5Bytes in(message);
  const uint64_t version = in.Take(1);
  const uint64_t flags = in.Take(1);
  const uint64_t name_bytes = in.Take(2);
  const uint64_t type_bytes = in.Take(2);
  const uint64_t space_bytes = in.Take(2);
  if (version == 3) in.Skip(1);  // the character set of the name
  const auto part = [&](uint64_t bytes) {
    const absl::string_view taken = in.TakeBytes(bytes);
    if (version == 1) in.SkipToMultipleOf8();
    return taken;
  };
  Hdf5Attribute attribute;
  const absl::string_view name = part(name_bytes);
  attribute.name = std::string(name.substr(0, name.find('\0')));
  Hdf5Bytes type_in(part(type_bytes));
  Hdf5Bytes space_in(part(space_bytes));
  if (!in.ok() || version < 1 || version > 3) {
    return source_.Malformed("an attribute that does not end");
  }
  if (version > 1 && (flags & 3) != 0) {
    return source_.Unsupported(
        absl::StrCat("attribute '", Excerpt(attribute.name), "' has a type or shape with a name"));
  }
  ASSIGN_OR_RETURN(const Hdf5Type type, ParseHdf5Type(source_, type_in));
  ASSIGN_OR_RETURN(const Hdf5Space space, ParseHdf5Space(source_, space_in));
  attribute.type = type.name;
  attribute.is_scalar = space.dims.empty();
  if (!space.has_elements) return attribute;
  if (type.size > message.size() && space.dims.empty()) {
    return source_.Malformed("an attribute that does not end");
  }
  // The number of elements is compared with the bytes that are there, before memory is taken.
  absl::StatusOr<uint64_t> count = StoredBytes(space.dims, 1);
  if (!count.ok() || (*count > 0 && type.size > in.left() / *count)) {
    return source_.Malformed(
        absl::StrCat("attribute '", Excerpt(attribute.name), "' is longer than its object header"));
  }
  const absl::string_view elements = in.TakeBytes(*count * type.size);
  RETURN_IF_ERROR(source_.Spend(elements.size() + *count * sizeof(std::string)));
  attribute.is_text =
      type.kind == Hdf5Type::Kind::kFixedString || type.kind == Hdf5Type::Kind::kVariableString;
  if (type.kind == Hdf5Type::Kind::kNumber) {
    absl::StatusOr<Tensor> numbers =
        DecodeElements(absl::Span<const char>(elements.data(), elements.size()), type.stored,
                       Shape(absl::MakeConstSpan(space.dims)));
    if (numbers.ok()) attribute.numbers = *std::move(numbers);
  }
  for (uint64_t i = 0; attribute.is_text && i < *count; ++i) {
    const absl::string_view element = elements.substr(i * type.size, type.size);
    if (type.kind == Hdf5Type::Kind::kFixedString) {
      attribute.strings.push_back(WithoutPadding(element, type.padding));
      continue;
    }
    ASSIGN_OR_RETURN(std::string text, StringOfHeap(element));
    attribute.strings.push_back(std::move(text));
  }
  return attribute;
}

absl::StatusOr<std::string> Hdf5AttributeReader::StringOfHeap(absl::string_view reference) {
  static_assert(kReferenceBytes == 16, "ParseHdf5Type takes references of 16 bytes alone");
  Hdf5Bytes in(reference);
  const uint64_t length = in.Take(4);
  const uint64_t address = in.Take(8);
  const uint64_t number = in.Take(4);
  if (length == 0) return std::string();
  ASSIGN_OR_RETURN(const HeapObjects* const heap, HeapAt(address));
  const auto found = heap->find(number);
  if (found == heap->end() || length > found->second.size()) {
    return source_.Malformed("a string beyond its heap");
  }
  RETURN_IF_ERROR(source_.Spend(length));
  const std::string text = found->second.substr(0, length);
  return text.substr(0, text.find('\0'));
}

absl::StatusOr<const Hdf5AttributeReader::HeapObjects*> Hdf5AttributeReader::HeapAt(
    uint64_t address) {
  // Many strings refer to one heap, so each heap is read once.
  const auto known = heaps_.find(address);
  if (known != heaps_.end()) return &known->second;
  constexpr uint64_t kHead = 16;
  ASSIGN_OR_RETURN(const std::string head, source_.ReadBlock(address, kHead, "GCOL", false));
  Hdf5Bytes size_in(absl::string_view(head).substr(8));
  ASSIGN_OR_RETURN(const std::string heap, source_.Read(address, size_in.Take(8)));
  Hdf5Bytes in(heap);
  in.Skip(kHead);
  HeapObjects objects;
  while (in.left() >= kHead) {
    const uint64_t number = in.Take(2);
    in.Skip(6);
    const uint64_t length = in.Take(8);
    if (number == 0) break;  // the rest of the heap is free space
    objects[number] = std::string(in.TakeBytes(length));
    in.SkipToMultipleOf8();
    if (!in.ok()) return source_.Malformed("a heap of strings that does not end");
  }
  return &(heaps_[address] = std::move(objects));
}

}  // namespace cohort
