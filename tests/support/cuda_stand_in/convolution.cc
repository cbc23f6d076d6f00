// Convolutions in plain loops, in the place of cuDNN's.

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

namespace {

// Calls visit(output, input, tap) wherever a tap of an axis meets the input.
template <typename Visit>
void ForEachTapOf(const ConvAxis& axis, const Visit& visit) {
  for (int64_t output = 0; output < axis.output; ++output) {
    for (int64_t tap = 0; tap < axis.kernel; ++tap) {
      const int64_t input = output * axis.stride - axis.pad + tap * axis.dilation;
      if (input >= 0 && input < axis.input) visit(output, input, tap);
    }
  }
}

// Calls visit(element of y, element of x, element of w) for each product.
template <typename Visit>
void ForEachProduct(const ConvLaunch& l, const Visit& visit) {
  const int64_t x_channels = l.groups * l.inputs;
  const int64_t y_channels = l.groups * l.outputs;
  for (int64_t pair = 0; pair < l.batch * y_channels * l.inputs; ++pair) {
    const int64_t n = pair / l.inputs / y_channels;
    const int64_t out = pair / l.inputs % y_channels;
    const int64_t in = out / l.outputs * l.inputs + pair % l.inputs;
    const int64_t y = n * y_channels + out;
    const int64_t x = n * x_channels + in;
    const int64_t w = out * l.inputs + pair % l.inputs;
    ForEachTapOf(l.rows, [&](int64_t y_row, int64_t x_row, int64_t w_row) {
      ForEachTapOf(l.columns, [&](int64_t y_column, int64_t x_column, int64_t w_column) {
        visit((y * l.rows.output + y_row) * l.columns.output + y_column,
              (x * l.rows.input + x_row) * l.columns.input + x_column,
              (w * l.rows.kernel + w_row) * l.columns.kernel + w_column);
      });
    });
  }
}

size_t Size(int64_t planes, int64_t rows, int64_t columns) {
  return static_cast<size_t>(planes * rows * columns);
}

void Narrow(const std::vector<double>& wide, float* out) {
  std::transform(wide.begin(), wide.end(), out,
                 [](double value) { return static_cast<float>(value); });
}

void Forward(const ConvLaunch& l) {
  const int64_t channels = l.groups * l.outputs;
  const int64_t size = l.rows.output * l.columns.output;
  std::vector<double> sums(Size(l.batch * channels, l.rows.output, l.columns.output), 0.0);
  for (size_t i = 0; l.bias != nullptr && i < sums.size(); ++i) {
    sums[i] = static_cast<double>(l.bias[static_cast<int64_t>(i) / size % channels]);
  }
  ForEachProduct(l, [&](int64_t y, int64_t x, int64_t w) {
    sums[static_cast<size_t>(y)] += static_cast<double>(l.first[x]) * l.second[w];
  });
  Narrow(sums, l.result);
}

void InputGrad(const ConvLaunch& l) {
  std::vector<double> sums(Size(l.batch * l.groups * l.inputs, l.rows.input, l.columns.input), 0.0);
  ForEachProduct(l, [&](int64_t y, int64_t x, int64_t w) {
    sums[static_cast<size_t>(x)] += static_cast<double>(l.first[y]) * l.second[w];
  });
  Narrow(sums, l.result);
}

void WeightGrad(const ConvLaunch& l) {
  std::vector<double> sums(Size(l.groups * l.outputs * l.inputs, l.rows.kernel, l.columns.kernel),
                           0.0);
  ForEachProduct(l, [&](int64_t y, int64_t x, int64_t w) {
    sums[static_cast<size_t>(w)] += static_cast<double>(l.first[y]) * l.second[x];
  });
  Narrow(sums, l.result);
}

// As cuDNN does, which pads both ends alike.
void CheckAxis(const ConvAxis& axis) {
  const int64_t covered = (axis.kernel - 1) * axis.dilation + 1;
  const int64_t outputs = (axis.input + 2 * axis.pad - covered) / axis.stride + 1;
  COHORT_CHECK(outputs == axis.output && outputs > 0, "a convolution has the outputs it should");
}

template <void (*kWork)(const ConvLaunch&)>
int32_t OnDevice(CudaContext* context, const ConvLaunch& launch) {
  COHORT_CHECK(launch.batch > 0 && launch.inputs > 0 && launch.outputs > 0, "nothing is empty");
  CheckAxis(launch.rows);
  CheckAxis(launch.columns);
  return PostToDevice(context, [launch] { kWork(launch); });
}

}  // namespace

ConvolutionLaunches MakeConvolutionLaunches() {
  return {OnDevice<Forward>, OnDevice<InputGrad>, OnDevice<WeightGrad>};
}

}  // namespace cohort
