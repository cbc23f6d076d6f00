#include "common/records/examples/feature_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/records/examples/wire_reader.h"

namespace cohort {

namespace {

// The fields of the message Feature, which are its lists.
constexpr uint32_t kBytesList = 1;
constexpr uint32_t kFloatList = 2;
constexpr uint32_t kInt64List = 3;
// The only field of each list: the values. Numbers are packed, or, in old files, have a tag each.
constexpr uint32_t kValues = WireTag(1, WireReader::kBytes);
constexpr uint32_t kOneFloat = WireTag(1, WireReader::kFixed32);
constexpr uint32_t kOneInt = WireTag(1, WireReader::kVarint);

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("its ", what, " is malformed"));
}

uint32_t FieldOf(FeatureType type) {
  switch (type) {
    case FeatureType::kBytes:
      return kBytesList;
    case FeatureType::kFloat:
      return kFloatList;
    case FeatureType::kInt64:
      return kInt64List;
  }
  return 0;
}

FeatureType TypeOf(uint32_t field) {
  if (field == kBytesList) return FeatureType::kBytes;
  return field == kFloatList ? FeatureType::kFloat : FeatureType::kInt64;
}

bool AppendPackedInts(absl::string_view packed, std::vector<int64_t>& ints) {
  // Every varint ends with a byte below 0x80, so these bytes count the values.
  const auto count = static_cast<size_t>(std::count_if(
      packed.begin(), packed.end(), [](char byte) { return static_cast<signed char>(byte) >= 0; }));
  size_t at = ints.size();
  ints.resize(at + count);
  WireReader reader(packed);
  while (!reader.at_end()) {
    uint64_t value = 0;
    if (!reader.ReadVarint(&value)) return false;
    ints[at++] = static_cast<int64_t>(value);
  }
  return true;
}

bool AppendPackedFloats(absl::string_view packed, std::vector<float>& floats) {
  static_assert(std::endian::native == std::endian::little, "protobuf's floats are little-endian");
  if (packed.size() % sizeof(float) != 0) return false;
  const size_t at = floats.size();
  floats.resize(at + packed.size() / sizeof(float));
  if (!packed.empty()) std::memcpy(floats.data() + at, packed.data(), packed.size());
  return true;
}

bool AppendInts(WireReader list, std::vector<int64_t>& ints) {
  while (!list.at_end()) {
    uint32_t tag = 0;
    if (!list.ReadTag(&tag)) return false;
    absl::string_view packed;
    uint64_t value = 0;
    if (tag == kValues) {
      if (!list.ReadBytes(&packed) || !AppendPackedInts(packed, ints)) return false;
    } else if (tag == kOneInt) {
      if (!list.ReadVarint(&value)) return false;
      ints.push_back(static_cast<int64_t>(value));
    } else if (!list.Skip(tag)) {
      return false;
    }
  }
  return true;
}

bool AppendFloats(WireReader list, std::vector<float>& floats) {
  while (!list.at_end()) {
    uint32_t tag = 0;
    if (!list.ReadTag(&tag)) return false;
    absl::string_view packed;
    uint32_t bits = 0;
    if (tag == kValues) {
      if (!list.ReadBytes(&packed) || !AppendPackedFloats(packed, floats)) return false;
    } else if (tag == kOneFloat) {
      if (!list.ReadFixed32(&bits)) return false;
      floats.push_back(std::bit_cast<float>(bits));
    } else if (!list.Skip(tag)) {
      return false;
    }
  }
  return true;
}

bool AppendStrings(WireReader list, std::vector<absl::string_view>& strings) {
  while (!list.at_end()) {
    uint32_t tag = 0;
    if (!list.ReadTag(&tag)) return false;
    absl::string_view value;
    if (tag == kValues) {
      if (!list.ReadBytes(&value)) return false;
      strings.push_back(value);
    } else if (!list.Skip(tag)) {
      return false;
    }
  }
  return true;
}

bool AppendList(absl::string_view list, FeatureType type, ColumnValues& values) {
  switch (type) {
    case FeatureType::kInt64:
      return AppendInts(WireReader(list), values.ints);
    case FeatureType::kFloat:
      return AppendFloats(WireReader(list), values.floats);
    case FeatureType::kBytes:
      return AppendStrings(WireReader(list), values.strings);
  }
  return false;
}

}  // namespace

absl::Status AppendFeature(absl::string_view feature, FeatureType type, ColumnValues& values,
                           bool* is_set) {
  *is_set = false;
  WireReader reader(feature);
  while (!reader.at_end()) {
    uint32_t tag = 0;
    if (!reader.ReadTag(&tag)) return Malformed("Feature");
    const uint32_t field = tag >> 3;
    const bool is_list =
        (tag & 7) == WireReader::kBytes && field >= kBytesList && field <= kInt64List;
    if (!is_list) {
      if (!reader.Skip(tag)) return Malformed("Feature");
      continue;
    }
    absl::string_view list;
    if (!reader.ReadBytes(&list)) return Malformed("Feature");
    if (*is_set) return absl::DataLossError("its list of values is given twice");
    *is_set = true;
    if (field != FieldOf(type)) {
      return absl::InvalidArgumentError(absl::StrCat("the record has values of type ",
                                                     FeatureTypeName(TypeOf(field)), ", not ",
                                                     FeatureTypeName(type)));
    }
    if (!AppendList(list, type, values)) return Malformed("list of values");
  }
  return absl::OkStatus();
}

}  // namespace cohort
