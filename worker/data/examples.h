#pragma once

// Examples of named columns that are read by number, such as the records of files.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/data.pb.h"
#include "worker/data/columns/column.h"

namespace cohort {

// Immutable; thread-safe.
class Examples {
 public:
  virtual ~Examples() = default;

  virtual int64_t size() const = 0;
  virtual const std::vector<ColumnSpec>& columns() const = 0;
  // Returns the files, in order, with checksums for comparing those of two workers.
  virtual const std::vector<proto::DataFile>& files() const = 0;
  // Reads the examples with these numbers, in this order. Errors: OUT_OF_RANGE for a number that no
  // example has; those of the files; DATA_LOSS or INVALID_ARGUMENT naming the example and what is
  // wrong with it.
  virtual absl::StatusOr<ColumnBatch> Read(absl::Span<const int64_t> numbers) const = 0;
  // Returns a name for an example, for messages: "record 17 of /data/a.csv".
  virtual std::string NameOf(int64_t number) const = 0;
};

}  // namespace cohort
