#include "coordinator/layers/dynamic_table.h"

#include <cmath>

namespace cohort {
namespace {

// Limits that the parameter servers set (ps_server/table/row_policy.h).
constexpr int64_t kAdmitAfterMax = 200;
constexpr int64_t kTableBytesLeast = int64_t{8} << 20;
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

proto::DynamicTable MakeDynamicTable(const DynamicTableSpec& spec) {
  proto::DynamicTable table;
  table.set_row_dtype(static_cast<int32_t>(spec.dtype));
  table.set_admit_after(static_cast<uint32_t>(spec.admit_after));
  table.set_admit_probability(spec.admit_probability);
  if (spec.ttl_seconds) {
    // The time is rounded up, so that a short time does not become 0, which means that rows never
    // expire.
    table.set_ttl_ms(static_cast<int64_t>(std::ceil(*spec.ttl_seconds * 1000)));
  }
  // The value 0 stands for a table without a memory limit.
  table.set_max_bytes(static_cast<uint64_t>(spec.max_bytes_per_ps.value_or(0)));
  table.set_evict_least_frequent(spec.evict == "lfu");
  return table;
}

}  // namespace cohort
