#include "common/tensor/initializer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// The largest number of draws for one element of a truncated normal. A draw is rejected with a
// probability of 4.6 %, and 64 rejections in a row have a probability of 1e-86.
constexpr uint64_t kRedrawsMax = 64;
constexpr double kTruncation = 2.0;  // the bound of a truncated normal, in standard deviations
// The largest number up to which every whole number is exact as a double: 2^53.
constexpr double kExactInteger = 9007199254740992.0;

bool IsNormal(const InitializerSpec& spec) {
  return spec.op == "random_normal" || spec.op == "truncated_normal";
}
bool IsRandom(const InitializerSpec& spec) { return spec.op == "random_uniform" || IsNormal(spec); }

// Returns the value that "zeros", "ones" or "constant" gives to every element.
double ConstantOf(const InitializerSpec& spec) {
  if (spec.op == "ones") return 1.0;
  return spec.op == "constant" ? spec.a : 0.0;
}

double TruncatedNormal(const RandomStream& stream, uint64_t i) {
  // Each redraw takes all elements from a sub-stream of its own, so drawing one element again does
  // not change the other elements.
  for (uint64_t redraw = 0; redraw < kRedrawsMax; ++redraw) {
    const double z = stream.Child(redraw).Normal(i);
    if (std::fabs(z) <= kTruncation) return z;
  }
  // All draws were rejected, which has a probability of 1e-86. The mean of the distribution is
  // returned.
  return 0.0;
}

// Fills `out` with values of a uniform distribution. out[0] gets element `first` of the stream.
template <typename T>
void FillUniform(const InitializerSpec& spec, const RandomStream& stream, uint64_t first,
                 absl::Span<T> out) {
  const T low = static_cast<T>(spec.a);
  const T high = static_cast<T>(spec.b);
  // static_cast may round up to `high`, which is not in [low, high). So values are limited to
  // `last`, the largest T below `high`.
  const T last = high > low ? std::nextafter(high, low) : low;
  for (size_t k = 0; k < out.size(); ++k) {
    const double u = stream.Uniform(first + k);
    out[k] = std::min(static_cast<T>(spec.a + (spec.b - spec.a) * u), last);
  }
}

template <typename T>
void FillNormal(const InitializerSpec& spec, const RandomStream& stream, uint64_t first,
                absl::Span<T> out) {
  const bool truncated = spec.op == "truncated_normal";
  for (size_t k = 0; k < out.size(); ++k) {
    const double z = truncated ? TruncatedNormal(stream, first + k) : stream.Normal(first + k);
    out[k] = static_cast<T>(spec.a + spec.b * z);
  }
}

// Fills `out` with values in the distribution of `spec`. out[0] gets element `first` of the stream.
template <typename T>
void FillSpan(const InitializerSpec& spec, const RandomStream& stream, uint64_t first,
              absl::Span<T> out) {
  // For element types that are not floating point, CheckInitializer has accepted only constant ops.
  if constexpr (std::is_floating_point_v<T>) {
    if (spec.op == "random_uniform") return FillUniform<T>(spec, stream, first, out);
    if (IsNormal(spec)) return FillNormal<T>(spec, stream, first, out);
  }
  std::fill(out.begin(), out.end(), static_cast<T>(ConstantOf(spec)));
}

template <typename T>
void Fill(const InitializerSpec& spec, absl::string_view variable, int64_t first, Tensor& out) {
  const absl::Span<T> span(out.mutable_data<T>(), static_cast<size_t>(out.num_elements()));
  FillSpan<T>(spec, RandomStream(spec.seed, variable), static_cast<uint64_t>(first), span);
}

// Returns true if the type T can hold `value`: exactly if T is an integer type, and within its
// range if T is a floating-point type.
template <typename T>
bool Represents(double value) {
  const bool in_range = value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
                        value <= static_cast<double>(std::numeric_limits<T>::max());
  if (std::is_floating_point_v<T>) return in_range;
  return in_range && std::floor(value) == value && std::fabs(value) <= kExactInteger;
}

// Calls `visit` with a zero of the C++ type that belongs to `dtype`. Returns false, without a call
// of `visit`, for an element type that no initializer can fill.
template <typename Visit>
bool VisitElement(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kFloat32:
      visit(float{});
      return true;
    case DType::kFloat64:
      visit(double{});
      return true;
    case DType::kInt32:
      visit(int32_t{});
      return true;
    case DType::kInt64:
      visit(int64_t{});
      return true;
    case DType::kUint8:
      visit(uint8_t{});
      return true;
    case DType::kInt8:
      visit(int8_t{});
      return true;
    case DType::kBool:
      visit(bool{});
      return true;
    default:
      return false;
  }
}

// Checks the element type and the parameters of a random op.
absl::Status CheckRandom(const InitializerSpec& spec, DType dtype) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64) {
    return absl::InvalidArgumentError(absl::StrCat("initializer '", spec.op, "' makes float32 or ",
                                                   "float64 values, not ", DTypeName(dtype)));
  }
  if (spec.op == "random_uniform" && spec.b < spec.a) {
    return absl::InvalidArgumentError(absl::StrCat("initializer 'random_uniform' has its high end ",
                                                   spec.b, " below its low end ", spec.a));
  }
  if (IsNormal(spec) && spec.b < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("initializer '", spec.op, "' has the negative standard deviation ", spec.b));
  }
  // A normal value that is drawn from 64 random bits is less than 7 standard deviations from the
  // mean. So all values are finite if the parameters are at most `most`.
  const double most = dtype == DType::kFloat32 ? std::numeric_limits<float>::max() / 64
                                               : std::numeric_limits<double>::max() / 64;
  if (std::fabs(spec.a) > most || std::fabs(spec.b) > most) {
    return absl::InvalidArgumentError(absl::StrCat("initializer '", spec.op,
                                                   "' leaves the range of ", DTypeName(dtype), ": ",
                                                   spec.a, ", ", spec.b));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInitializer(const InitializerSpec& spec, DType dtype) {
  if (!std::isfinite(spec.a) || !std::isfinite(spec.b)) {
    return absl::InvalidArgumentError(absl::StrCat("initializer '", spec.op, "' has a parameter ",
                                                   "that is not finite: ", spec.a, ", ", spec.b));
  }
  if (IsRandom(spec)) return CheckRandom(spec, dtype);
  if (spec.op != "zeros" && spec.op != "ones" && spec.op != "constant") {
    return absl::InvalidArgumentError(
        absl::StrCat("initializer '", spec.op, "' is not known; there are zeros, ones, constant, ",
                     "random_uniform, random_normal and truncated_normal"));
  }
  bool representable = false;
  const double value = ConstantOf(spec);
  const bool known = VisitElement(
      dtype, [&](auto element) { representable = Represents<decltype(element)>(value); });
  if (!known || !representable) {
    return absl::InvalidArgumentError(absl::StrCat("initializer '", spec.op, "': ", value,
                                                   " is not a value of type ", DTypeName(dtype)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> InitialRows(const InitializerSpec& spec, absl::string_view variable,
                                   DType dtype, const Shape& full_shape, RowRange rows) {
  RETURN_IF_ERROR(CheckInitializer(spec, dtype));
  const int64_t all_rows = full_shape.rank() == 0 ? 1 : full_shape.dim(0);
  // rows.begin + rows.count could overflow, so this check subtracts.
  if (rows.begin < 0 || rows.count < 0 || rows.begin > all_rows - rows.count) {
    // The message prints begin and count but not their sum, because both may be any number and the
    // sum could overflow.
    return absl::InvalidArgumentError(absl::StrCat(rows.count, " rows from row ", rows.begin,
                                                   " on of ", variable, ", which has shape ",
                                                   full_shape.ToString()));
  }
  absl::InlinedVector<int64_t, 4> dims(full_shape.dims().begin(), full_shape.dims().end());
  if (!dims.empty()) dims[0] = rows.count;
  Tensor out(dtype, Shape(absl::MakeConstSpan(dims)));
  // The index of the first value in the variable's random stream counts elements of the whole
  // variable, so the values do not depend on how the variable is cut into slices.
  const int64_t first = rows.begin * full_shape.row_elements();
  VisitElement(dtype, [&](auto element) { Fill<decltype(element)>(spec, variable, first, out); });
  return out;
}

void FillFromStream(const InitializerSpec& spec, const RandomStream& stream,
                    absl::Span<float> out) {
  FillSpan<float>(spec, stream, 0, out);
}

}  // namespace cohort
