// Reads and writes `dynamic` of an embedding's config: a table whose rows have keys.

#include <string>

#include "absl/strings/match.h"
#include "common/program/table_limit.h"
#include "coordinator/job/job_sections.h"

namespace cohort {
namespace {

// Limits that the parameter servers set (ps_server/table/row_policy.h).
constexpr int64_t kAdmitAfterMax = 200;
constexpr int64_t kTableBytesMax = int64_t{1} << 50;
constexpr double kTtlSecondsMax = 1e8;  // in seconds: about three years

}  // namespace

void ReadDynamicTable(ObjectReader& reader, DynamicTableSpec& table) {
  reader.Int("admit_after", {.min = 1, .max = kAdmitAfterMax}, &table.admit_after);
  reader.Number("admit_probability", {.min = 0, .max = 1, .min_excluded = true},
                &table.admit_probability);
  // An absent key means that rows never expire, so the range has no value for it.
  if (reader.Given("ttl_seconds", table.ttl_seconds.has_value())) {
    double seconds = table.ttl_seconds.value_or(1);
    reader.Number("ttl_seconds", {.min = 0, .max = kTtlSecondsMax, .min_excluded = true}, &seconds);
    table.ttl_seconds = seconds;
  }
  reader.OptionalInt("max_bytes_per_ps", {.min = kTableBytesLeast, .max = kTableBytesMax},
                     &table.max_bytes_per_ps);
  reader.Choice("evict", {"lru", "lfu"}, &table.evict);
  std::string dtype(DTypeName(table.dtype));
  reader.Choice("dtype", {"float32", "float16", "bfloat16"}, &dtype);
  table.dtype = DTypeFromName(dtype).value_or(DType::kFloat32);
}

// The Glorot, He and Lecun families scale by the number of inputs, which for a table is its number
// of rows.
bool NeedsInputDim(const KerasInitializerSpec& initializer) {
  for (const char* family : {"Glorot", "He", "Lecun"}) {
    if (absl::StartsWith(initializer.class_name, family)) return true;
  }
  return false;
}

}  // namespace cohort
