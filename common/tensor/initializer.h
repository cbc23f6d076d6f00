#pragma once

// Start values of variables. Element i of the WHOLE variable depends on (seed, variable name, i)
// alone, so a slice is filled where it lives and the values do not depend on how the variable is
// cut.
//
// Ops: "zeros", "ones", "constant" (a), "random_uniform" ([a, b)), "random_normal" (mean a,
// standard deviation b) and "truncated_normal" (as random_normal, drawn again while further than 2
// b from a, as Keras does).

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/rng.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct InitializerSpec {
  std::string op;
  double a = 0;
  double b = 0;
  uint64_t seed = 0;
};

// Errors: INVALID_ARGUMENT naming an unknown op, a parameter that is not finite, b < a of
// random_uniform, b < 0 of a normal, or an element type that the op cannot fill (random ops:
// float32 and float64; a constant must be representable).
absl::Status CheckInitializer(const InitializerSpec& spec, DType dtype);

// Values of rows `rows` of the variable `variable` of shape `full_shape`. Errors: as
// CheckInitializer; INVALID_ARGUMENT for rows outside the shape.
absl::StatusOr<Tensor> InitialRows(const InitializerSpec& spec, absl::string_view variable,
                                   DType dtype, const Shape& full_shape, RowRange rows);

// Fills `out` with the first values of `stream` in the distribution of `spec`, which
// CheckInitializer has accepted for float32. Meant for rows that have streams of their own.
void FillFromStream(const InitializerSpec& spec, const RandomStream& stream, absl::Span<float> out);

}  // namespace cohort
