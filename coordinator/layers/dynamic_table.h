#pragma once

// A table without a fixed number of rows, which only Cohort has: the key `dynamic` of an Embedding.

#include <cstdint>
#include <optional>
#include <string>

#include "common/tensor/dtype.h"
#include "coordinator/json/json_reader.h"
#include "proto/plan.pb.h"

namespace cohort {

// Ids are keys, and may be any integers. A key's row begins when the key is first pushed, or when
// the table admits the key.
struct DynamicTableSpec {
  int64_t admit_after = 1;       // the number of pushes after which a key gets a row
  double admit_probability = 1;  // the probability with which each such push admits the key
  // How long a row is kept without a push; absent: for ever.
  std::optional<double> ttl_seconds = std::nullopt;
  // Memory limit of the table on each ps; absent: no limit.
  std::optional<int64_t> max_bytes_per_ps = std::nullopt;
  std::string evict = "lru";      // rule for the row that is removed at the limit: "lru" or "lfu"
  DType dtype = DType::kFloat32;  // element type of the rows; the 16-bit floats are allowed too

  friend bool operator==(const DynamicTableSpec&, const DynamicTableSpec&) = default;
};

void ReadDynamicTable(ObjectReader& reader, DynamicTableSpec& table);

// Returns the settings of a dynamic table in the form that the parameter servers read.
proto::DynamicTable MakeDynamicTable(const DynamicTableSpec& spec);

}  // namespace cohort
