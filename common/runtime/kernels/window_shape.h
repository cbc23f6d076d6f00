#pragma once

// Windows that slide over the axes of an image after batch and channels: the part that convolutions
// and pooling share. Output position o and tap k of a window meet input position o * stride -
// pad_begin + k * dilation along each axis; outside the input there is padding. There may be any
// number of such axes; the fast kernels take two.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/tensor/shape.h"

namespace cohort {

// ONNX's attributes; an empty list is its default.
struct WindowParameters {
  std::string auto_pad = "NOTSET";
  std::vector<int64_t> kernel;  // a convolution's may be left to its weights
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads;  // all begins, then all ends
  bool ceil_mode = false;
};
WindowParameters ParseWindow(AttributeReader& reader);

struct WindowAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;

  int64_t InputAt(int64_t output_at, int64_t tap) const {
    return output_at * stride - pad_begin + tap * dilation;
  }
};

// Positions of all axes together count row major.
struct Window {
  std::vector<WindowAxis> axes;
  int64_t inputs = 1;
  int64_t outputs = 1;
  int64_t taps = 1;
};
// Resolves the window over an `image` of [batch, channels, ...]. Errors: INVALID_ARGUMENT naming
// the attribute or the axis that does not fit.
absl::StatusOr<Window> ResolveWindow(const Shape& image, const WindowParameters& parameters);

// Returns [batch, channels, ...] of the window's result.
Shape WindowOutputShape(int64_t batch, int64_t channels, const Window& window);

// Calls visit(output, input, tap) wherever a tap meets the input, the taps of one output in row
// major order.
template <typename Visit>
void ForEachTap(const Window& window, const Visit& visit, size_t axis = 0, int64_t output = 0,
                int64_t input = 0, int64_t tap = 0) {
  if (axis == window.axes.size()) return visit(output, input, tap);
  const WindowAxis& along = window.axes[axis];
  for (int64_t o = 0; o < along.output; ++o) {
    for (int64_t k = 0; k < along.kernel; ++k) {
      const int64_t i = along.InputAt(o, k);
      if (i < 0 || i >= along.input) continue;
      ForEachTap(window, visit, axis + 1, output * along.output + o, input * along.input + i,
                 tap * along.kernel + k);
    }
  }
}

// A convolution: X [batch, groups * inputs, ...], W [groups * outputs, inputs, ...].
struct ConvParameters {
  WindowParameters window;
  int64_t groups = 1;
};
ConvParameters ParseConv(AttributeReader& reader);

struct ConvShape {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t inputs = 0;   // channels of one group
  int64_t outputs = 0;  // channels of one group
  Window window;
  Shape y;
};
// Errors: INVALID_ARGUMENT naming the shapes or the attribute.
absl::StatusOr<ConvShape> ResolveConv(const Shape& x, const Shape& w,
                                      const ConvParameters& parameters);
// Resolves a gradient operator, whose dy has to be of the convolution's shape.
absl::StatusOr<ConvShape> ResolveConvGrad(const Tensor& dy, const Shape& x, const Shape& w,
                                          const ConvParameters& parameters);
// Errors: INVALID_ARGUMENT for a bias that is there and has not one element for each output of `w`.
absl::Status CheckConvBias(const Tensor& w, const Tensor& bias);

struct PoolParameters {
  WindowParameters window;
  bool count_padding = false;  // AveragePool divides by the padded window
  bool column_major = false;   // MaxPool numbers its indices so
};
PoolParameters ParseMaxPool(AttributeReader& reader);
PoolParameters ParseAveragePool(AttributeReader& reader);

struct PoolShape {
  int64_t planes = 0;  // batch * channels
  Window window;
  Shape y;
};
absl::StatusOr<PoolShape> ResolvePool(const Shape& x, const PoolParameters& parameters);
absl::StatusOr<PoolShape> ResolvePoolGrad(const Tensor& dy, const Shape& x,
                                          const PoolParameters& parameters);

// A pooling of whole planes.
struct GlobalPoolShape {
  int64_t size = 0;  // elements of a plane
  Shape y;
};
absl::StatusOr<GlobalPoolShape> ResolveGlobalPool(const Tensor& x);

// Returns the numbers by which an average pooling divides its outputs.
std::vector<double> AverageDivisors(const Window& window, bool count_padding);

}  // namespace cohort
