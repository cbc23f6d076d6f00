#pragma once

// The functions of columns by their classes (proto::Map).

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "worker/data/columns/column.h"
#include "worker/data/columns/column_function.h"

namespace cohort {

// Makes the function of `map` for columns of these types, and changes `columns` to the types that
// it leaves. Errors: INVALID_ARGUMENT naming the function, the column, its type and the remedy.
absl::StatusOr<std::unique_ptr<const ColumnFunction>> MakeColumnFunction(
    const proto::Map& map, std::vector<ColumnSpec>& columns);

// Returns the name of a map's function, by which jobs call it.
const char* FunctionName(const proto::Map& map);

}  // namespace cohort
