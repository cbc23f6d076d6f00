#pragma once

// Initial values of variables. Element i of the WHOLE variable depends only on (seed, variable
// name, i). So each home can fill its own slice, and the values do not depend on how the variable
// is cut into slices.
//
// The initializer ops are "zeros", "ones", "constant" (a), "random_uniform" (in [a, b)),
// "random_normal" (mean a, standard deviation b), "truncated_normal" (as random_normal, but values
// further than 2 b from a are drawn again, as Keras does), "identity" (a on the diagonal of a
// matrix of b columns) and "orthogonal" (a matrix of b columns whose columns, or rows if those are
// fewer, are orthogonal and of length a). An op other than "orthogonal" may stand behind
// "unit_forget:", which makes the second quarter of the variable's elements 1, as an LSTM's forget
// gates begin.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/rng.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"

namespace cohort {

inline constexpr char kUnitForget[] = "unit_forget:";

struct InitializerSpec {
  std::string op;
  double a = 0;
  double b = 0;
  uint64_t seed = 0;
};

// Checks an initializer for an element type. Errors: INVALID_ARGUMENT that names an unknown op, a
// parameter that is not finite, b < a in random_uniform, b < 0 in a normal distribution, or values
// that the type does not have (random ops fill only float32 and float64, with parameters well
// inside the type's range; a constant must be representable in the type).
absl::Status CheckInitializer(const InitializerSpec& spec, DType dtype);

// Returns the initial values of the rows `rows` of a variable with the name `variable` and the
// shape `full_shape`. Errors: the errors of CheckInitializer; INVALID_ARGUMENT for rows outside
// `full_shape`.
absl::StatusOr<Tensor> InitialRows(const InitializerSpec& spec, absl::string_view variable,
                                   DType dtype, const Shape& full_shape, RowRange rows);

// Fills `out` with the first values of `stream` in the distribution of `spec`, which
// CheckInitializer must have accepted for float32. Meant for the rows of a dynamic table, each of
// which has a stream of its own.
void FillFromStream(const InitializerSpec& spec, const RandomStream& stream, absl::Span<float> out);

}  // namespace cohort
