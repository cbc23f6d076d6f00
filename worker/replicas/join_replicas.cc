#include "worker/replicas/join_replicas.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/pieces.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

namespace {

template <typename T>
void AddTo(const Tensor& value, Tensor& sum) {
  const T* const from = reinterpret_cast<const T*>(value.raw());
  T* const to = reinterpret_cast<T*>(sum.mutable_raw());
  const auto count = static_cast<size_t>(sum.num_elements());
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

absl::Status Add(const Tensor& value, Tensor& sum) {
  RETURN_IF_ERROR(CheckFit(sum, value));
  switch (sum.dtype()) {
    case DType::kFloat32:
      AddTo<float>(value, sum);
      return absl::OkStatus();
    case DType::kFloat64:
      AddTo<double>(value, sum);
      return absl::OkStatus();
    // Integers are added as unsigned numbers, so that an overflow wraps around and is defined.
    case DType::kInt32:
      AddTo<uint32_t>(value, sum);
      return absl::OkStatus();
    case DType::kInt64:
      AddTo<uint64_t>(value, sum);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("replicas computed ", sum.TypeString(), ", which has no sum here: cast it"));
  }
}

// Adds up the values in place, level by level of the balanced tree; the sum ends up in values[0].
// Errors: INVALID_ARGUMENT for values of different types or shapes, and for a type that has no sum.
absl::StatusOr<Tensor> SumOf(std::vector<Tensor> values) {
  for (size_t step = 1; step < values.size(); step *= 2) {
    for (size_t i = 0; i + step < values.size(); i += 2 * step) {
      RETURN_IF_ERROR(Add(values[i + step], values[i]));
    }
  }
  return std::move(values[0]);
}

// Copies rows [first, first + count) of `from` to the same rows of `to`.
void CopyRows(const Tensor& from, int64_t first, int64_t count, Tensor& to) {
  if (count <= 0 || to.num_bytes() == 0) return;
  const size_t row = to.num_bytes() / static_cast<size_t>(to.shape().dim(0));
  const size_t begin = static_cast<size_t>(first) * row;
  std::memcpy(to.mutable_raw() + begin, from.raw() + begin, static_cast<size_t>(count) * row);
}

}  // namespace

float LeafWeight(JoinRule rule, int64_t examples, int64_t all_examples, int64_t replicas) {
  if (replicas == 1) return 1;
  if (rule == JoinRule::kMean) return 1.0f / static_cast<float>(replicas);
  if (rule != JoinRule::kOfExamples) return 1;
  // The weight is computed in double, because a float does not represent every large number of
  // examples.
  return static_cast<float>(static_cast<double>(examples) / static_cast<double>(all_examples));
}

absl::Status CheckFit(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && a.shape() == b.shape()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("replicas computed ", a.TypeString(), " and ",
                                                 b.TypeString(), ", which do not fit together"));
}

// Floats get -0.0, because adding it keeps every float unchanged. Adding 0.0 would turn -0.0 into
// 0.0.
void FillNeutral(DType dtype, int64_t elements, std::byte* out) {
  if (elements == 0) return;
  switch (dtype) {
    case DType::kFloat32:
      std::fill_n(reinterpret_cast<float*>(out), elements, -0.0f);
      break;
    case DType::kFloat64:
      std::fill_n(reinterpret_cast<double*>(out), elements, -0.0);
      break;
    default:
      std::memset(out, 0, static_cast<size_t>(elements) * ElementSize(dtype));
      break;
  }
}

absl::Status WeighInto(const Tensor& value, float weight, Tensor& own) {
  // A value with weight 1 is copied as well, because other code still reads the original.
  if (weight == 1) {
    if (value.num_bytes() > 0) std::memcpy(own.mutable_raw(), value.raw(), value.num_bytes());
    return absl::OkStatus();
  }
  if (value.dtype() != DType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("replicas computed ", value.TypeString(), ", which has no mean"));
  }
  const float* const from = value.data<float>();
  float* const to = own.mutable_data<float>();
  const auto count = static_cast<size_t>(value.num_elements());
  for (size_t i = 0; i < count; ++i) to[i] = weight * from[i];
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Weighted(const Tensor& value, float weight, OutputPool& pool) {
  Tensor own(value.dtype(), value.shape(), pool.Take(std::max<size_t>(value.num_bytes(), 1)), 0);
  RETURN_IF_ERROR(WeighInto(value, weight, own));
  return own;
}

absl::StatusOr<std::vector<Tensor>> JoinReplicas(JoinRule rule, std::vector<Tensor> values) {
  if (rule == JoinRule::kEach || values.size() == 1) return values;
  std::vector<Tensor> joined;
  if (rule == JoinRule::kFirst) {
    joined.push_back(std::move(values[0]));
  } else if (rule == JoinRule::kRows) {
    ASSIGN_OR_RETURN(joined.emplace_back(), Concatenated(values, 0));
  } else {
    ASSIGN_OR_RETURN(joined.emplace_back(), SumOf(std::move(values)));
  }
  return joined;
}

absl::StatusOr<Tensor> RowsOfReplicas(const VariableType& variable, const RowsHere& here,
                                      const Tensor& before, const std::vector<Tensor>& values) {
  Tensor rows(variable.dtype, variable.shape);
  const Shape row_shape = variable.ValueShape();
  // The rows of other workers' replicas are neutral elements, so that the sum over the workers is
  // the whole variable.
  FillNeutral(rows.dtype(), rows.num_elements(), rows.mutable_raw());
  if (here.brings_rest && before.has_value()) {
    // Replicas `all` and above do not run, so their rows keep the values that they had before.
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
