#include "coordinator/api/replica_values.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/pieces.h"

namespace cohort {

namespace {

// Returns whether ReduceReplicas accepts tensors of this type: float32, float64, int32 or int64.
bool IsNumber(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

// Checks that there is at least one replica, and that the values of all replicas have the same type
// and rank.
absl::Status CheckValues(absl::Span<const Tensor> replicas) {
  if (replicas.empty()) return absl::InvalidArgumentError("there are no values of replicas");
  for (const Tensor& value : replicas) {
    if (value.dtype() == replicas[0].dtype() &&
        value.shape().rank() == replicas[0].shape().rank()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("replicas have ", replicas[0].TypeString(),
                                                   " and ", value.TypeString(),
                                                   ": types and ranks must be the same"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(absl::Span<const Tensor> replicas) {
  RETURN_IF_ERROR(CheckValues(replicas));
  if (IsNumber(replicas[0].dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("replicas have ", replicas[0].TypeString(),
                                                 ", which has no sum: cast it to float32"));
}

// Converts `axis`, which counts from the end if negative, to an axis counted from the front.
// Errors: INVALID_ARGUMENT for an axis that is out of range.
absl::StatusOr<int> ReadAxis(int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return absl::InvalidArgumentError(
      absl::StrCat("axis ", axis, " is out of range for values of rank ", rank));
}

absl::StatusOr<std::set<int>> ReadAxes(absl::Span<const int64_t> axes, int rank) {
  std::set<int> read;
  for (const int64_t axis : axes) {
    ASSIGN_OR_RETURN(const int one, ReadAxis(axis, rank));
    if (!read.insert(one).second) {
      return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is given twice"));
    }
  }
  return read;
}

// The sum of one replica's value over some axes. `count` is the number of elements of the value
// that were added up for each element of the sum.
struct PartialSum {
  Tensor sum;
  int64_t count = 1;
};

template <typename T>
PartialSum SumOver(const Tensor& value, const std::set<int>& axes) {
  const int rank = value.shape().rank();
  std::vector<int64_t> dims;
  PartialSum partial;
  for (int axis = 0; axis < rank; ++axis) {
    if (axes.count(axis) > 0) {
      partial.count *= value.shape().dim(axis);
    } else {
      dims.push_back(value.shape().dim(axis));
    }
  }
  partial.sum = Tensor::Zeros(value.dtype(), Shape(absl::MakeConstSpan(dims)));
  // For each axis of the value, the distance in the sum between neighbors along the axis. A reduced
  // axis has distance 0, so all elements along it are added to the same element of the sum.
  std::vector<int64_t> strides(static_cast<size_t>(rank), 0);
  int64_t stride = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (axes.count(axis) > 0) continue;
    strides[static_cast<size_t>(axis)] = stride;
    stride *= value.shape().dim(axis);
  }
  // `at` is the multi-index of the next element of the value. `target` is the offset of the sum's
  // element to which that element of the value is added.
  std::vector<int64_t> at(static_cast<size_t>(rank), 0);
  int64_t target = 0;
  T* const sums = partial.sum.mutable_data<T>();
  for (const T element : value.span<T>()) {
    sums[target] += element;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto place = static_cast<size_t>(axis);
      target += strides[place];
      // The multi-index counts like an odometer: an axis that reaches its end goes back to 0, and
      // the axis before it advances.
      if (++at[place] < value.shape().dim(axis)) break;
      target -= strides[place] * at[place];
      at[place] = 0;
    }
  }
  return partial;
}

template <typename T>
absl::StatusOr<Tensor> ReduceOf(ReplicaReduce op, absl::Span<const Tensor> replicas,
                                const std::set<int>& axes, bool by_axes) {
  std::vector<Tensor> sums;
  int64_t count = 0;
  for (const Tensor& value : replicas) {
    PartialSum partial = SumOver<T>(value, axes);
    // The values of replicas may differ in size only along the reduced axes. The sums lack these
    // axes, so all sums must have the same shape.
    if (!sums.empty() && partial.sum.shape() != sums[0].shape()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "replicas have ", replicas[0].TypeString(), " and ", value.TypeString(),
          by_axes ? ": sizes may differ along the reduced axes alone"
                  : ": sizes must be the same, or give the axis along which they differ"));
    }
    sums.push_back(std::move(partial.sum));
    count += partial.count;
  }
  // The replicas' sums are added up in a balanced tree over ranks. So the order of additions, and
  // with it the rounding, is always the same.
  for (size_t step = 1; step < sums.size(); step *= 2) {
    for (size_t i = 0; i + step < sums.size(); i += 2 * step) {
      T* const to = sums[i].template mutable_data<T>();
      const absl::Span<const T> from = sums[i + step].template span<T>();
      for (size_t k = 0; k < from.size(); ++k) to[k] += from[k];
    }
  }
  if (op == ReplicaReduce::kSum) return sums[0];
  // The mean of no elements is NaN for floats, as in TensorFlow. For integers it is an error,
  // because they have no NaN.
  if (std::is_integral_v<T> && count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the mean of no elements: replicas have ", replicas[0].TypeString()));
  }
  T* const mean = sums[0].template mutable_data<T>();
  for (int64_t k = 0; k < sums[0].num_elements(); ++k) {
    mean[k] = static_cast<T>(static_cast<double>(mean[k]) / static_cast<double>(count));
  }
  return sums[0];
}

// Calls ReduceOf with the C++ type of the values' elements. The caller has checked that the type is
// a number type (CheckNumbers).
absl::StatusOr<Tensor> ReduceAny(ReplicaReduce op, absl::Span<const Tensor> replicas,
                                 const std::set<int>& axes, bool by_axes) {
  switch (replicas[0].dtype()) {
    case DType::kFloat32:
      return ReduceOf<float>(op, replicas, axes, by_axes);
    case DType::kFloat64:
      return ReduceOf<double>(op, replicas, axes, by_axes);
    case DType::kInt32:
      return ReduceOf<int32_t>(op, replicas, axes, by_axes);
    default:
      return ReduceOf<int64_t>(op, replicas, axes, by_axes);
  }
}

// Returns whether all bytes of the value are zero.
bool IsZeros(const Tensor& value) {
  return std::all_of(value.raw(), value.raw() + value.num_bytes(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

absl::StatusOr<Tensor> ValuesFromFunction(
    int64_t num_replicas_in_sync,
    absl::FunctionRef<absl::StatusOr<Tensor>(const ValueContext&)> function) {
  if (num_replicas_in_sync < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "values from a function of ", num_replicas_in_sync, " replicas: one at least"));
  }
  std::vector<Tensor> rows;
  for (int64_t replica = 0; replica < num_replicas_in_sync; ++replica) {
    ASSIGN_OR_RETURN(const Tensor value, function({replica, num_replicas_in_sync}));
    // Each replica's value becomes one row of the result, so it gets a leading axis of extent 1.
    std::vector<int64_t> sizes = {1};
    sizes.insert(sizes.end(), value.shape().dims().begin(), value.shape().dims().end());
    const Shape row(sizes);
    rows.push_back(value.Reshaped(row));
    if (value.dtype() == rows[0].dtype() && row == rows[0].shape()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the function gives replica ", replica, " ", value.TypeString(),
        ", and replica 0 a row of ", rows[0].TypeString(), ": all need the same type"));
  }
  return Concatenated(rows, 0);
}

absl::StatusOr<ReplicaReduce> ReplicaReduceFromName(absl::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(name);
  if (upper == "SUM") return ReplicaReduce::kSum;
  if (upper == "MEAN") return ReplicaReduce::kMean;
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is not a reduce op; use SUM or MEAN"));
}

absl::StatusOr<Tensor> ReduceReplicas(ReplicaReduce op, absl::Span<const Tensor> replicas) {
  RETURN_IF_ERROR(CheckNumbers(replicas));
  return ReduceAny(op, replicas, {}, /*by_axes=*/false);
}

absl::StatusOr<Tensor> ReduceReplicas(ReplicaReduce op, absl::Span<const Tensor> replicas,
                                      absl::Span<const int64_t> axes) {
  RETURN_IF_ERROR(CheckNumbers(replicas));
  ASSIGN_OR_RETURN(const std::set<int> read, ReadAxes(axes, replicas[0].shape().rank()));
  return ReduceAny(op, replicas, read, /*by_axes=*/true);
}

absl::StatusOr<Tensor> ReduceShared(ReplicaReduce op, const Tensor& value, int64_t replicas) {
  if (op == ReplicaReduce::kMean || replicas == 1 || IsZeros(value)) return value;
  return absl::InvalidArgumentError(absl::StrCat(
      "the SUM over ", replicas, " replicas of a value that no replica made, ", value.TypeString(),
      ": run a program that fetches it on each replica, or take the MEAN"));
}

absl::StatusOr<Tensor> GatherReplicas(absl::Span<const Tensor> replicas, int64_t axis) {
  RETURN_IF_ERROR(CheckValues(replicas));
  return Concatenated(replicas, axis);
}

}  // namespace cohort
