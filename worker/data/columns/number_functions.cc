// Functions of numbers: Discretization, Normalization, Rescaling, Log1p and Cast.

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "worker/data/columns/function_makers.h"

namespace cohort {

namespace {

// Keras's epsilon below the standard deviation.
constexpr float kDeviationMin = 1e-7f;

}  // namespace

// Keras's layer Discretization: the number of boundaries at or below x; NaN is in the last bin.
Made MakeDiscretization(MapCall call, Specs& columns) {
  if (!IsNumber(call.input)) return WrongType(call.input, "numbers");
  const auto& given = call.map.discretization().boundaries();
  std::vector<float> boundaries(given.begin(), given.end());
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) {
    return absl::InvalidArgumentError("bin_boundaries do not ascend");
  }
  call.output.type = proto::COLUMN_INT64;
  return MakeEach(std::move(call), columns,
                  [boundaries](const ColumnValues& in, ColumnValues& out, StringArena&, size_t*) {
                    ForEachNumber(in, [&](double value) {
                      const auto above = std::upper_bound(boundaries.begin(), boundaries.end(),
                                                          static_cast<float>(value));
                      const auto bin = std::isnan(value) ? boundaries.end() : above;
                      out.ints.push_back(bin - boundaries.begin());
                    });
                    return absl::OkStatus();
                  });
}

Made MakeNormalization(MapCall call, Specs& columns) {
  if (!IsNumber(call.input)) return WrongType(call.input, "numbers");
  const proto::Normalization& given = call.map.normalization();
  const auto count = static_cast<size_t>(given.mean_size());
  // One number for all, for each number of a record, or for each of its last axis.
  const Shape& shape = call.input.shape;
  const int64_t last = shape.rank() == 0 ? 1 : shape.dim(shape.rank() - 1);
  const auto numbers = static_cast<int64_t>(count);
  const bool fits = count == static_cast<size_t>(given.variance_size()) &&
                    (count == 1 || numbers == shape.num_elements() || numbers == last);
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("mean and variance have ", count, " and ", given.variance_size(),
                     " numbers; they need one, or one for each of a record's ",
                     call.input.shape.num_elements()));
  }
  std::vector<float> mean(given.mean().begin(), given.mean().end());
  std::vector<float> deviation;
  for (const float variance : given.variance()) {
    deviation.push_back(std::max(std::sqrt(variance), kDeviationMin));
  }
  call.output.type = proto::COLUMN_FLOAT32;
  return MakeEach(
      std::move(call), columns,
      [mean, deviation](const ColumnValues& in, ColumnValues& out, StringArena&, size_t*) {
        size_t i = 0;
        ForEachNumber(in, [&](double value) {
          out.floats.push_back((static_cast<float>(value) - mean[i]) / deviation[i]);
          i = i + 1 == mean.size() ? 0 : i + 1;
        });
        return absl::OkStatus();
      });
}

Made MakeRescaling(MapCall call, Specs& columns) {
  if (!IsNumber(call.input)) return WrongType(call.input, "numbers");
  const auto scale = static_cast<float>(call.map.rescaling().scale());
  const auto offset = static_cast<float>(call.map.rescaling().offset());
  call.output.type = proto::COLUMN_FLOAT32;
  return MakeEach(
      std::move(call), columns,
      [scale, offset](const ColumnValues& in, ColumnValues& out, StringArena&, size_t*) {
        ForEachNumber(in, [&](double value) {
          out.floats.push_back(static_cast<float>(value) * scale + offset);
        });
        return absl::OkStatus();
      });
}

Made MakeLog1p(MapCall call, Specs& columns) {
  if (!IsNumber(call.input)) return WrongType(call.input, "numbers");
  call.output.type = proto::COLUMN_FLOAT32;
  return MakeEach(std::move(call), columns,
                  [](const ColumnValues& in, ColumnValues& out, StringArena&, size_t*) {
                    ForEachNumber(in, [&](double value) {
                      out.floats.push_back(static_cast<float>(std::log1p(std::max(value, 0.0))));
                    });
                    return absl::OkStatus();
                  });
}

Made MakeCast(MapCall call, Specs& columns) {
  if (!IsNumber(call.input)) return WrongType(call.input, "numbers; look texts up or hash them");
  switch (static_cast<DType>(call.map.cast())) {
    case DType::kFloat32:
      call.output.type = proto::COLUMN_FLOAT32;
      break;
    case DType::kFloat64:
      call.output.type = proto::COLUMN_FLOAT64;
      break;
    case DType::kInt32:
      call.output.type = proto::COLUMN_INT32;
      break;
    case DType::kInt64:
      call.output.type = proto::COLUMN_INT64;
      break;
    default:
      return absl::InvalidArgumentError("a cast gives float32, float64, int32 or int64");
  }
  const proto::ColumnType type = call.output.type;
  const bool from_float = !IsInt(call.input);
  return MakeEach(
      std::move(call), columns,
      [type, from_float](const ColumnValues& in, ColumnValues& out, StringArena&,
                         size_t* at) -> absl::Status {
        const auto put_int = [&](int64_t value) {
          const bool fits =
              type == proto::COLUMN_INT64 || (value >= INT32_MIN && value <= INT32_MAX);
          if (fits) out.ints.push_back(value);
          return fits;
        };
        absl::Status status;
        const auto refuse = [&](auto value) {
          status.Update(absl::InvalidArgumentError(absl::StrCat(
              "its value ", value, " is no ", type == proto::COLUMN_INT32 ? "int32" : "int64")));
        };
        if (type == proto::COLUMN_FLOAT32) {
          ForEachNumber(in, [&](double v) { out.floats.push_back(static_cast<float>(v)); });
        } else if (type == proto::COLUMN_FLOAT64) {
          ForEachNumber(in, [&](double v) { out.doubles.push_back(v); });
        } else if (from_float) {
          // Fractions are cut off, as by tf.cast; what no integer is near is refused.
          constexpr double kLimit = 0x1p63;
          ForEachNumber(in, [&](double v) {
            if (!status.ok()) return;
            if (!(v > -kLimit && v < kLimit) || !put_int(static_cast<int64_t>(v))) return refuse(v);
            ++*at;
          });
        } else {
          for (const int64_t v : in.ints) {
            if (!put_int(v)) refuse(v);
            if (!status.ok()) break;
            ++*at;
          }
        }
        return status;
      });
}

}  // namespace cohort
