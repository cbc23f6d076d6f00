// GPU loops over the planes of images (one channel of one image each): pooling, and adding or
// removing frames of zeros around planes.

#include <cmath>

#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

namespace {

// A range of positions along an axis: first, first + step, ... up to but not including `end`.
struct Positions {
  int64_t first;
  int64_t step;
  int64_t end;
};

// Returns the input positions along one axis that the window at output position `output` covers.
// Positions in the padding are left out.
COHORT_DEVICE inline Positions InputsOf(const WindowAxis& axis, int64_t output) {
  const int64_t begin = output * axis.stride - axis.pad_begin;
  const int64_t end = begin + (axis.kernel - 1) * axis.dilation + 1;
  const int64_t skipped = begin < 0 ? (-begin + axis.dilation - 1) / axis.dilation : 0;
  return {begin + skipped * axis.dilation, axis.dilation, end < axis.input ? end : axis.input};
}

// Returns the output positions along one axis whose windows may contain input position `input`.
// Windows with a dilation skip positions, so Meets must check each output position.
COHORT_DEVICE inline Positions OutputsOf(const WindowAxis& axis, int64_t input) {
  const int64_t padded = input + axis.pad_begin;
  const int64_t before = padded - (axis.kernel - 1) * axis.dilation;
  const int64_t end = padded / axis.stride + 1;
  return {before > 0 ? (before + axis.stride - 1) / axis.stride : 0, 1,
          end < axis.output ? end : axis.output};
}

// Returns whether the window at output position `output` contains input position `input`. `output`
// must be one of the positions that OutputsOf returns for `input`.
COHORT_DEVICE inline bool Meets(const WindowAxis& axis, int64_t output, int64_t input) {
  return (input + axis.pad_begin - output * axis.stride) % axis.dilation == 0;
}

// Calls visit(input) for each input position in the window of output number `output`, in row-major
// order.
template <typename Visit>
COHORT_DEVICE void ForEachInput(const Slide& slide, int64_t output, Visit visit) {
  const WindowAxis& a = slide.axes[0];
  const WindowAxis& b = slide.axes[1];
  const WindowAxis& c = slide.axes[2];
  const Positions is = InputsOf(a, output / c.output / b.output);
  const Positions js = InputsOf(b, output / c.output % b.output);
  const Positions ks = InputsOf(c, output % c.output);
  for (int64_t i = is.first; i < is.end; i += is.step) {
    for (int64_t j = js.first; j < js.end; j += js.step) {
      for (int64_t k = ks.first; k < ks.end; k += ks.step) {
        visit((i * b.input + j) * c.input + k);
      }
    }
  }
}

// Calls visit(output) for each output whose window contains input position `input`, in row-major
// order.
template <typename Visit>
COHORT_DEVICE void ForEachOutput(const Slide& slide, int64_t input, Visit visit) {
  const WindowAxis& a = slide.axes[0];
  const WindowAxis& b = slide.axes[1];
  const WindowAxis& c = slide.axes[2];
  const int64_t i = input / c.input / b.input;
  const int64_t j = input / c.input % b.input;
  const int64_t k = input % c.input;
  const Positions is = OutputsOf(a, i);
  const Positions js = OutputsOf(b, j);
  const Positions ks = OutputsOf(c, k);
  for (int64_t p = is.first; p < is.end; ++p) {
    if (!Meets(a, p, i)) continue;
    for (int64_t q = js.first; q < js.end; ++q) {
      if (!Meets(b, q, j)) continue;
      for (int64_t r = ks.first; r < ks.end; ++r) {
        if (Meets(c, r, k)) visit((p * b.output + q) * c.output + r);
      }
    }
  }
}

// Returns the position within the plane of a window's largest element, or -1 for a window without
// elements. Of equal elements the first counts. A NaN counts as larger than any number.
COHORT_DEVICE inline int64_t Largest(const Slide& slide, const float* plane, int64_t output) {
  int64_t best = -1;
  float most = 0;
  ForEachInput(slide, output, [&](int64_t input) {
    const float value = plane[input];
    if (best >= 0 && !(value > most) && value == value) return;
    best = input;
    most = value;
  });
  return best;
}

int32_t MaxPool(CudaContext* context, const MaxPoolLaunch& launch) {
  const MaxPoolLaunch l = launch;
  return ForEach(context, l.slide.planes * l.slide.outputs, [=] COHORT_DEVICE(int64_t i) {
    const float* const plane = l.x + i / l.slide.outputs * l.slide.inputs;
    const int64_t best = Largest(l.slide, plane, i % l.slide.outputs);
    if (l.y != nullptr) l.y[i] = best < 0 ? -INFINITY : plane[best];
    if (l.at != nullptr) l.at[i] = best;
  });
}

// Converts a position in a plane from row-major to column-major order (first axis fastest).
COHORT_DEVICE inline int64_t ColumnMajorAt(const Slide& slide, int64_t at) {
  const int64_t a = slide.axes[0].input;
  const int64_t b = slide.axes[1].input;
  const int64_t c = slide.axes[2].input;
  return at / c / b + (at / c % b + at % c * b) * a;
}

int32_t MaxPoolIndices(CudaContext* context, const MaxPoolIndicesLaunch& launch) {
  const MaxPoolIndicesLaunch l = launch;
  return ForEach(context, l.slide.planes * l.slide.outputs, [=] COHORT_DEVICE(int64_t i) {
    const int64_t at = l.at[i];
    const int64_t place = l.column_major && at >= 0 ? ColumnMajorAt(l.slide, at) : at;
    l.indices[i] = i / l.slide.outputs * l.slide.inputs + place;
  });
}

// Returns the sum of dy over the windows whose largest element is at input position `input`.
COHORT_DEVICE inline double SumOfLargest(const Slide& slide, const float* dy, const int64_t* at,
                                         int64_t input) {
  double sum = 0;
  ForEachOutput(slide, input, [&](int64_t output) {
    if (at[output] == input) sum += static_cast<double>(dy[output]);
  });
  return sum;
}

int32_t MaxPoolGrad(CudaContext* context, const MaxPoolGradLaunch& launch) {
  const MaxPoolGradLaunch l = launch;
  return ForEach(context, l.slide.planes * l.slide.inputs, [=] COHORT_DEVICE(int64_t i) {
    const int64_t first = i / l.slide.inputs * l.slide.outputs;
    l.dx[i] =
        static_cast<float>(SumOfLargest(l.slide, l.dy + first, l.at + first, i % l.slide.inputs));
  });
}

// Returns the number of positions along one axis that the window at output position `output` has in
// average pooling.
COHORT_DEVICE inline int64_t CountOf(const WindowAxis& axis, bool count_padding, int64_t output) {
  WindowAxis counted = axis;
  if (count_padding) {  // elements of the padding are counted like those of the input
    counted.input += axis.pad_begin + axis.pad_end;
    counted.pad_begin = 0;
  }
  const Positions inputs = InputsOf(counted, output);
  if (inputs.end <= inputs.first) return 0;
  return (inputs.end - inputs.first + inputs.step - 1) / inputs.step;
}

// Returns the divisor of average pooling in one window: the number of elements in the window, at
// least 1. The last window may lie beyond the input and have no elements; the sum of its elements
// is 0.
COHORT_DEVICE inline double DivisorOf(const Slide& slide, bool count_padding, int64_t output) {
  const WindowAxis& b = slide.axes[1];
  const WindowAxis& c = slide.axes[2];
  const int64_t count = CountOf(slide.axes[0], count_padding, output / c.output / b.output) *
                        CountOf(b, count_padding, output / c.output % b.output) *
                        CountOf(c, count_padding, output % c.output);
  return static_cast<double>(count > 1 ? count : 1);
}

COHORT_DEVICE inline double SumOfInputs(const Slide& slide, const float* plane, int64_t output) {
  double sum = 0;
  ForEachInput(slide, output, [&](int64_t input) { sum += static_cast<double>(plane[input]); });
  return sum;
}

int32_t AveragePool(CudaContext* context, const AveragePoolLaunch& launch) {
  const AveragePoolLaunch l = launch;
  return ForEach(context, l.slide.planes * l.slide.outputs, [=] COHORT_DEVICE(int64_t i) {
    const int64_t output = i % l.slide.outputs;
    const float* const plane = l.in + i / l.slide.outputs * l.slide.inputs;
    l.out[i] = static_cast<float>(SumOfInputs(l.slide, plane, output) /
                                  DivisorOf(l.slide, l.count_padding, output));
  });
}

// Returns the gradient of average pooling for one input. Each window divides its dy equally among
// its elements, and the input sums up its shares in all windows that contain it.
COHORT_DEVICE inline double SumOfShares(const AveragePoolLaunch& l, const float* dy,
                                        int64_t input) {
  double sum = 0;
  ForEachOutput(l.slide, input, [&](int64_t output) {
    sum += static_cast<double>(dy[output]) / DivisorOf(l.slide, l.count_padding, output);
  });
  return sum;
}

int32_t AveragePoolGrad(CudaContext* context, const AveragePoolLaunch& launch) {
  const AveragePoolLaunch l = launch;
  return ForEach(context, l.slide.planes * l.slide.inputs, [=] COHORT_DEVICE(int64_t i) {
    const float* const dy = l.in + i / l.slide.inputs * l.slide.outputs;
    l.out[i] = static_cast<float>(SumOfShares(l, dy, i % l.slide.inputs));
  });
}

int32_t GlobalAveragePool(CudaContext* context, const GlobalAveragePoolLaunch& launch) {
  const GlobalAveragePoolLaunch l = launch;
  return ReduceEach(
      context, l.planes, l.size, 0.0,
      [=] COHORT_DEVICE(int64_t p, int64_t i) { return static_cast<double>(l.x[p * l.size + i]); },
      AddUp(),
      [=] COHORT_DEVICE(int64_t p, double sum) {
        l.y[p] = static_cast<float>(sum / static_cast<double>(l.size));
      });
}

int32_t Pad(CudaContext* context, const PaddingLaunch& launch) {
  const FramedPlanes s = launch.shape;
  const float* const in = launch.in;
  float* const out = launch.out;
  return ForEach(context, s.planes * s.large_rows * s.large_columns, [=] COHORT_DEVICE(int64_t i) {
    const int64_t column = i % s.large_columns - s.left;
    const int64_t row = i / s.large_columns % s.large_rows - s.top;
    const int64_t plane = i / s.large_columns / s.large_rows;
    const bool within = column >= 0 && column < s.columns && row >= 0 && row < s.rows;
    out[i] = within ? in[(plane * s.rows + row) * s.columns + column] : 0;
  });
}

int32_t Crop(CudaContext* context, const PaddingLaunch& launch) {
  const FramedPlanes s = launch.shape;
  const float* const in = launch.in;
  float* const out = launch.out;
  return ForEach(context, s.planes * s.rows * s.columns, [=] COHORT_DEVICE(int64_t i) {
    const int64_t column = i % s.columns + s.left;
    const int64_t row = i / s.columns % s.rows + s.top;
    const int64_t plane = i / s.columns / s.rows;
    out[i] = in[(plane * s.large_rows + row) * s.large_columns + column];
  });
}

}  // namespace

PoolingLaunches MakePoolingLaunches() {
  return {MaxPool, MaxPoolIndices, MaxPoolGrad, AveragePool, AveragePoolGrad, GlobalAveragePool};
}
PaddingLaunches MakePaddingLaunches() { return {Pad, Crop}; }

}  // namespace cohort
