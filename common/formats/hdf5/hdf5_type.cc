#include "common/formats/hdf5/hdf5_type.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

using Kind = Hdf5Type::Kind;
using StoredKind = StoredType::Kind;

// The numbers of HDF5's classes of types.
enum Class : uint64_t {
  kFixedPoint = 0,
  kFloatingPoint = 1,
  kString = 3,
  kOpaqueClass = 5,
  kEnumeration = 8,
  kVariableLength = 9,
};

constexpr std::array<const char*, 11> kClassNames = {
    "integer", "float",     "time",        "string",          "bit field", "opaque",
    "record",  "reference", "enumeration", "variable-length", "array"};

// The layout of the bits of a floating-point type.
struct FloatLayout {
  uint64_t size, sign, exponent, exponent_size, mantissa_size, bias;
  StoredKind kind;
};

constexpr std::array<FloatLayout, 4> kFloatLayouts = {
    {{2, 15, 10, 5, 10, 15, StoredKind::kFloat},
     {4, 31, 23, 8, 23, 127, StoredKind::kFloat},
     {8, 63, 52, 11, 52, 1023, StoredKind::kFloat},
     {2, 15, 7, 8, 7, 127, StoredKind::kBfloat16}}};

void ParseFixedPoint(uint64_t bits, Hdf5Bytes& in, Hdf5Type& type) {
  const uint64_t offset = in.Take(2);
  const uint64_t precision = in.Take(2);
  const bool known = type.size == 1 || type.size == 2 || type.size == 4 || type.size == 8;
  if (!known || offset != 0 || precision != 8 * type.size) return;
  type.kind = Kind::kNumber;
  type.stored = {(bits & 8) != 0 ? StoredKind::kSigned : StoredKind::kUnsigned,
                 static_cast<int>(type.size), (bits & 1) != 0};
}

void ParseFloatingPoint(uint64_t bits, Hdf5Bytes& in, Hdf5Type& type) {
  const uint64_t offset = in.Take(2);
  const uint64_t precision = in.Take(2);
  const uint64_t exponent = in.Take(1);
  const uint64_t exponent_size = in.Take(1);
  const uint64_t mantissa = in.Take(1);
  const uint64_t mantissa_size = in.Take(1);
  const uint64_t bias = in.Take(4);
  const uint64_t sign = bits >> 8 & 0xff;
  constexpr uint64_t kVaxOrder = 0x40;
  if (offset != 0 || precision != 8 * type.size || mantissa != 0 || (bits & kVaxOrder) != 0) return;
  for (const FloatLayout& layout : kFloatLayouts) {
    if (type.size != layout.size || sign != layout.sign || exponent != layout.exponent ||
        exponent_size != layout.exponent_size || mantissa_size != layout.mantissa_size ||
        bias != layout.bias) {
      continue;
    }
    type.kind = Kind::kNumber;
    type.stored = {layout.kind, static_cast<int>(type.size), (bits & 1) != 0};
  }
}

void ParsePadding(uint64_t bits, Hdf5Type& type) {
  switch (bits & 15) {
    case 1:
      type.padding = Hdf5Type::Padding::kNulls;
      break;
    case 2:
      type.padding = Hdf5Type::Padding::kSpaces;
      break;
    default:
      type.padding = Hdf5Type::Padding::kNullTerminated;
  }
}

// Reads an enumeration's base type. h5py writes bools as enumerations of two values.
absl::Status ParseEnumeration(const Hdf5Source& source, uint64_t bits, Hdf5Bytes& in,
                              Hdf5Type& type) {
  const uint64_t head = in.Take(4);
  Hdf5Type base;
  base.size = in.Take(4);
  if ((head & 15) != kFixedPoint || base.size != type.size) {
    return source.Malformed("an enumeration that is not of integers");
  }
  ParseFixedPoint(head >> 8, in, base);
  type.kind = base.kind;
  type.stored = base.stored;
  const uint64_t members = bits & 0xffff;
  if (members == 2 && type.size == 1) type.stored.kind = StoredKind::kBool;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Hdf5Type> ParseHdf5Type(const Hdf5Source& source, Hdf5Bytes& in) {
  const uint64_t head = in.Take(4);
  const uint64_t bits = head >> 8;
  const uint64_t type_class = head & 15;
  Hdf5Type type;
  type.size = in.Take(4);
  type.name = type_class < kClassNames.size()
                  ? absl::StrCat(kClassNames[type_class], " of ", type.size, " bytes")
                  : absl::StrCat("class ", type_class);
  constexpr uint64_t kStringOfVariableLength = 1;
  switch (type_class) {
    case kFixedPoint:
      ParseFixedPoint(bits, in, type);
      break;
    case kFloatingPoint:
      ParseFloatingPoint(bits, in, type);
      break;
    case kString:
      type.kind = Kind::kFixedString;
      ParsePadding(bits, type);
      break;
    case kOpaqueClass:
      type.kind = Kind::kOpaque;
      break;
    case kEnumeration:
      RETURN_IF_ERROR(ParseEnumeration(source, bits, in, type));
      break;
    case kVariableLength:
      if ((bits & 15) == kStringOfVariableLength && type.size == 16) {
        type.kind = Kind::kVariableString;
      }
      break;
    default:
      break;
  }
  if (!in.ok()) return source.Malformed("a type that does not end");
  if (type.size == 0) return source.Malformed("elements of 0 bytes");
  return type;
}

absl::StatusOr<Hdf5Space> ParseHdf5Space(const Hdf5Source& source, Hdf5Bytes& in) {
  const uint64_t version = in.Take(1);
  const uint64_t rank = in.Take(1);
  const uint64_t flags = in.Take(1);
  const uint64_t kind = in.Take(1);  // reserved in version 1
  if (version == 1) in.Skip(4);
  if (!in.ok() || rank > kStoredRankMax) return source.Malformed("a shape with too many axes");
  if (version != 1 && version != 2) {
    return source.Unsupported(absl::StrCat("a shape of version ", version));
  }
  Hdf5Space space;
  constexpr uint64_t kNothing = 2;
  space.has_elements = version == 1 || kind != kNothing;
  for (uint64_t axis = 0; axis < rank; ++axis) {
    const uint64_t dim = in.Take(8);
    if (dim > INT64_MAX) return source.Malformed("a size above 2^63");
    space.dims.push_back(static_cast<int64_t>(dim));
  }
  if ((flags & 1) != 0) in.Skip(8 * rank);  // the largest size along each axis
  if (!in.ok()) return source.Malformed("a shape that does not end");
  return space;
}

}  // namespace cohort
