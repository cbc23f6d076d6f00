#include "coordinator/strategy/partitioner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

absl::Status CheckArgument(absl::string_view partitioner, absl::string_view argument,
                           int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(partitioner, ": ", argument, " is ", value, "; it must be at least 1"));
}

// Checks that a variable of this type and shape can be cut along axis 0. Errors: INVALID_ARGUMENT
// for a scalar, for a shape with an unknown dimension, and for a size in bytes that overflows
// int64.
absl::Status CheckShape(DType dtype, const Shape& shape) {
  if (shape.rank() == 0) {
    return absl::InvalidArgumentError("a scalar has no axis 0 to partition along");
  }
  auto bytes = static_cast<int64_t>(ElementSize(dtype));
  for (const int64_t dim : shape.dims()) {
    if (dim < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", shape.ToString(), " is not fully defined; partitioning needs every dimension"));
    }
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", shape.ToString(), " has more than 2^63 bytes; make the variable smaller"));
    }
  }
  return absl::OkStatus();
}

int64_t RowBytes(DType dtype, const Shape& shape) {
  return shape.row_elements() * static_cast<int64_t>(ElementSize(dtype));
}

// Returns the result of Partition() if axis 0 is cut into `slices` and no other axis is cut.
std::vector<int64_t> AlongAxisZero(const Shape& shape, int64_t slices) {
  std::vector<int64_t> result(static_cast<size_t>(shape.rank()), 1);
  result[0] = slices;
  return result;
}

// TensorFlow's FixedShardsPartitioner. Immutable. Thread-safe.
class FixedShardsPartitioner final : public Partitioner {
 public:
  explicit FixedShardsPartitioner(FixedShardsPartitionerSpec spec) : spec_(spec) {}

  absl::StatusOr<std::vector<int64_t>> Partition(DType dtype, const Shape& shape) const override {
    RETURN_IF_ERROR(CheckShape(dtype, shape));
    return AlongAxisZero(shape, std::min(spec_.num_shards, shape.dim(0)));
  }

 private:
  const FixedShardsPartitionerSpec spec_;
};

// TensorFlow's MinSizePartitioner. Immutable. Thread-safe.
class MinSizePartitioner final : public Partitioner {
 public:
  explicit MinSizePartitioner(MinSizePartitionerSpec spec) : spec_(spec) {}

  absl::StatusOr<std::vector<int64_t>> Partition(DType dtype, const Shape& shape) const override {
    RETURN_IF_ERROR(CheckShape(dtype, shape));
    const int64_t rows = shape.dim(0);
    const int64_t row_bytes = RowBytes(dtype, shape);
    // With a strict minimum, every slice needs at least r = ceil(min_shard_bytes / row_bytes) rows.
    // The smallest of n slices has floor(rows / n) rows, so the largest n is floor(rows / r).
    const int64_t wanted = spec_.strict_minimum ? rows / CeilDiv(spec_.min_shard_bytes, row_bytes)
                                                : CeilDiv(rows * row_bytes, spec_.min_shard_bytes);
    return AlongAxisZero(shape, std::max<int64_t>(1, std::min({rows, spec_.max_shards, wanted})));
  }

 private:
  const MinSizePartitionerSpec spec_;
};

// TensorFlow's MaxSizePartitioner. Immutable. Thread-safe.
class MaxSizePartitioner final : public Partitioner {
 public:
  explicit MaxSizePartitioner(MaxSizePartitionerSpec spec) : spec_(spec) {}

  absl::StatusOr<std::vector<int64_t>> Partition(DType dtype, const Shape& shape) const override {
    RETURN_IF_ERROR(CheckShape(dtype, shape));
    // A shard has at least one row, even if the row is larger than a shard may be.
    const int64_t rows_per_shard =
        std::max<int64_t>(1, spec_.max_shard_bytes / RowBytes(dtype, shape));
    const int64_t shards = CeilDiv(shape.dim(0), rows_per_shard);
    return AlongAxisZero(shape, spec_.max_shards ? std::min(*spec_.max_shards, shards) : shards);
  }

 private:
  const MaxSizePartitionerSpec spec_;
};

absl::Status Check(const FixedShardsPartitionerSpec& spec) {
  return CheckArgument("FixedShardsPartitioner", "num_shards", spec.num_shards);
}

absl::Status Check(const MinSizePartitionerSpec& spec) {
  constexpr char kName[] = "MinSizePartitioner";
  RETURN_IF_ERROR(CheckArgument(kName, "min_shard_bytes", spec.min_shard_bytes));
  RETURN_IF_ERROR(CheckArgument(kName, "max_shards", spec.max_shards));
  return CheckArgument(kName, "bytes_per_string", spec.bytes_per_string);
}

absl::Status Check(const MaxSizePartitionerSpec& spec) {
  constexpr char kName[] = "MaxSizePartitioner";
  RETURN_IF_ERROR(CheckArgument(kName, "max_shard_bytes", spec.max_shard_bytes));
  if (spec.max_shards) RETURN_IF_ERROR(CheckArgument(kName, "max_shards", *spec.max_shards));
  return CheckArgument(kName, "bytes_per_string", spec.bytes_per_string);
}

std::unique_ptr<const Partitioner> Make(const FixedShardsPartitionerSpec& spec) {
  return std::make_unique<FixedShardsPartitioner>(spec);
}
std::unique_ptr<const Partitioner> Make(const MinSizePartitionerSpec& spec) {
  return std::make_unique<MinSizePartitioner>(spec);
}
std::unique_ptr<const Partitioner> Make(const MaxSizePartitionerSpec& spec) {
  return std::make_unique<MaxSizePartitioner>(spec);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Partitioner>> MakePartitioner(const PartitionerSpec& spec) {
  RETURN_IF_ERROR(std::visit([](const auto& one) { return Check(one); }, spec));
  return std::visit([](const auto& one) { return Make(one); }, spec);
}

}  // namespace cohort
