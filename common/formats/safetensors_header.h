#pragma once

// The JSON header of a safetensors file as values. The reader keeps no JSON in memory: what it
// takes is bounded by the header's own length, whatever the JSON holds.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

inline constexpr absl::string_view kSafetensorsMetadataKey = "__metadata__";

// One tensor's entry in the header. Only its form has been checked.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the header
  std::map<std::string, std::string> metadata;
};

// Parses a header. Errors: INVALID_ARGUMENT that says what is not of the format, with the tensor's
// name or the position of a syntax error.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text);

}  // namespace cohort
