#include "worker/replicas/rows_of_replicas.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/replicas/join_replicas.h"

namespace cohort {

namespace {

// Copies rows [first, first + count) of `from` to the same rows of `to`.
void CopyRows(const Tensor& from, int64_t first, int64_t count, Tensor& to) {
  if (count <= 0 || to.num_bytes() == 0) return;
  const size_t row = to.num_bytes() / static_cast<size_t>(to.shape().dim(0));
  const size_t begin = static_cast<size_t>(first) * row;
  std::memcpy(to.mutable_raw() + begin, from.raw() + begin, static_cast<size_t>(count) * row);
}

}  // namespace

absl::StatusOr<Tensor> RowsOfReplicas(const VariableType& variable, const RowsHere& here,
                                      const Tensor& before, const std::vector<Tensor>& values) {
  Tensor rows(variable.dtype, variable.shape);
  const Shape row_shape = variable.ValueShape();
  // The rows of other workers' replicas stay neutral, so the sum over workers is the whole
  // variable.
  FillNeutral(rows.dtype(), rows.num_elements(), rows.mutable_raw());
  if (here.brings_rest && before.has_value()) {
    // Replicas with numbers from `all` on do not run, so their old rows are copied.
    CopyRows(before, here.all, variable.replicas - here.all, rows);
  }
  const size_t bytes = rows.num_bytes() / static_cast<size_t>(variable.replicas);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].dtype() != variable.dtype || values[i].shape() != row_shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the program computed ", values[i].TypeString(), " for a replica's value of variable ",
          variable.name, ", which is ", DTypeName(variable.dtype), row_shape.ToString()));
    }
    const size_t place = (static_cast<size_t>(here.first) + i) * bytes;
    if (bytes > 0) std::memcpy(rows.mutable_raw() + place, values[i].raw(), bytes);
  }
  return rows;
}

}  // namespace cohort
