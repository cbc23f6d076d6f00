#include "common/tensor/initializer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// The largest number of draws for one element of a truncated normal. A draw is rejected with a
// probability of 4.6 %, and 64 rejections in a row have a probability of 1e-86.
constexpr uint64_t kRedrawsMax = 64;
constexpr double kTruncation = 2.0;  // the bound of a truncated normal, in standard deviations
// The largest orthogonal matrix: its decomposition takes the square of the shorter side.
constexpr int64_t kOrthogonalMax = int64_t{1} << 26;
// The largest number up to which every whole number is exact as a double: 2^53.
constexpr double kExactInteger = 9007199254740992.0;

bool IsNormal(const InitializerSpec& spec) {
  return spec.op == "random_normal" || spec.op == "truncated_normal";
}
bool IsRandom(const InitializerSpec& spec) { return spec.op == "random_uniform" || IsNormal(spec); }

bool IsUnitForget(const InitializerSpec& spec) { return absl::StartsWith(spec.op, kUnitForget); }

// Returns the initializer of the elements that are not forget gates.
InitializerSpec OfOtherGates(const InitializerSpec& spec) {
  InitializerSpec others = spec;
  others.op = spec.op.substr(std::size(kUnitForget) - 1);
  return others;
}

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

// Returns the value of element i of a matrix with `a` on its diagonal.
double IdentityElement(const InitializerSpec& spec, uint64_t i) {
  const auto columns = static_cast<uint64_t>(spec.b);
  return i / columns == i % columns ? spec.a : 0;
}

bool IsIdentity(const InitializerSpec& spec) { return spec.op == "identity"; }

// Returns the orthogonal matrix [elements / columns, columns]: the Q of the QR decomposition of a
// normal matrix, whose R has a positive diagonal. The decomposition is that of the taller matrix.
std::vector<double> Orthogonal(const InitializerSpec& spec, const RandomStream& stream,
                               uint64_t elements) {
  const auto columns = static_cast<uint64_t>(spec.b);
  const uint64_t rows = elements / columns;
  const uint64_t length = std::max(rows, columns);
  const uint64_t count = std::min(rows, columns);
  // The vectors lie one behind another. Element e of vector v is number e * count + v of the
  // stream.
  std::vector<double> vectors(length * count);
  for (uint64_t v = 0; v < count; ++v) {
    for (uint64_t e = 0; e < length; ++e) vectors[v * length + e] = stream.Normal(e * count + v);
  }
  for (uint64_t v = 0; v < count; ++v) {
    double* const own = &vectors[v * length];
    // Twice, because one pass loses what cancels.
    for (int pass = 0; pass < 2; ++pass) {
      for (uint64_t w = 0; w < v; ++w) {
        const double* const other = &vectors[w * length];
        const double part = std::inner_product(own, own + length, other, 0.0);
        for (uint64_t e = 0; e < length; ++e) own[e] -= part * other[e];
      }
    }
    const double norm = std::sqrt(std::inner_product(own, own + length, own, 0.0));
    for (uint64_t e = 0; e < length; ++e) own[e] = norm > 0 ? own[e] / norm : 0;
  }
  std::vector<double> matrix(elements);
  for (uint64_t v = 0; v < count; ++v) {
    for (uint64_t e = 0; e < length; ++e) {
      const uint64_t place = rows < columns ? v * columns + e : e * columns + v;
      matrix[place] = spec.a * vectors[v * length + e];
    }
  }
  return matrix;
}

// Fills `out` with uniform values. `first` is the index of out[0] in the stream.
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
    if (IsIdentity(spec)) {
      for (size_t k = 0; k < out.size(); ++k) {
        out[k] = static_cast<T>(IdentityElement(spec, first + k));
      }
      return;
    }
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

// Checks the element type and the parameters of an op that depends on places in a matrix.
absl::Status CheckMatrix(const InitializerSpec& spec, DType dtype) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64) {
    return absl::InvalidArgumentError(absl::StrCat("initializer '", spec.op, "' makes float32 or ",
                                                   "float64 values, not ", DTypeName(dtype)));
  }
  if (spec.b >= 1 && spec.b <= kExactInteger && std::floor(spec.b) == spec.b) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("initializer '", spec.op, "' has b ", spec.b,
                                                 "; it must be a number of columns"));
}

// Fills `out` with the elements of an orthogonal matrix from number `first` on. Every slice
// computes the whole matrix.
absl::StatusOr<Tensor> OrthogonalRows(const InitializerSpec& spec, absl::string_view variable,
                                      const Shape& full_shape, int64_t first, Tensor out) {
  const int64_t elements = full_shape.num_elements();
  const auto columns = static_cast<int64_t>(spec.b);
  if (elements > kOrthogonalMax || elements < columns || elements % columns != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "initializer 'orthogonal' makes matrices of up to ", kOrthogonalMax, " elements, and ",
        variable, full_shape.ToString(), " with ", columns, " columns is none"));
  }
  const std::vector<double> matrix =
      Orthogonal(spec, RandomStream(spec.seed, variable), static_cast<uint64_t>(elements));
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    const double value = matrix[static_cast<size_t>(first + i)];
    if (out.dtype() == DType::kFloat32) {
      out.mutable_data<float>()[i] = static_cast<float>(value);
    } else {
      out.mutable_data<double>()[i] = value;
    }
  }
  return out;
}

// Makes the forget gates 1 in the elements of a variable from number `first` on.
void SetForgetGates(const Shape& full_shape, int64_t first, Tensor& out) {
  const int64_t gates = full_shape.num_elements() / 4;
  const int64_t begin = std::clamp<int64_t>(gates - first, 0, out.num_elements());
  const int64_t end = std::clamp<int64_t>(2 * gates - first, 0, out.num_elements());
  VisitElement(out.dtype(), [&](auto element) {
    using T = decltype(element);
    T* const values = out.mutable_data<T>();
    std::fill(values + begin, values + end, static_cast<T>(1));
  });
}

}  // namespace

absl::Status CheckInitializer(const InitializerSpec& spec, DType dtype) {
  if (!std::isfinite(spec.a) || !std::isfinite(spec.b)) {
    return absl::InvalidArgumentError(absl::StrCat("initializer '", spec.op, "' has a parameter ",
                                                   "that is not finite: ", spec.a, ", ", spec.b));
  }
  if (IsUnitForget(spec)) {
    const InitializerSpec others = OfOtherGates(spec);
    const bool is_known = !IsUnitForget(others) && others.op != "orthogonal";
    if (is_known) return CheckInitializer(others, dtype);
  }
  if (IsRandom(spec)) return CheckRandom(spec, dtype);
  if (IsIdentity(spec) || spec.op == "orthogonal") return CheckMatrix(spec, dtype);
  if (spec.op != "zeros" && spec.op != "ones" && spec.op != "constant") {
    return absl::InvalidArgumentError(
        absl::StrCat("initializer '", spec.op, "' is not known; there are zeros, ones, constant, ",
                     "random_uniform, random_normal, truncated_normal, identity and orthogonal"));
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
  if (spec.op == "orthogonal") return OrthogonalRows(spec, variable, full_shape, first, out);
  if (IsUnitForget(spec)) {
    ASSIGN_OR_RETURN(out, InitialRows(OfOtherGates(spec), variable, dtype, full_shape, rows));
    SetForgetGates(full_shape, first, out);
    return out;
  }
  VisitElement(dtype, [&](auto element) { Fill<decltype(element)>(spec, variable, first, out); });
  return out;
}

void FillFromStream(const InitializerSpec& spec, const RandomStream& stream,
                    absl::Span<float> out) {
  FillSpan<float>(spec, stream, 0, out);
}

}  // namespace cohort
