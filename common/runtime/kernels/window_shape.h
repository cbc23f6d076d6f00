#pragma once

// Windows that slide over the axes of an image after batch and channels. Convolutions and pooling
// share them. Any number of axes is possible; the fast kernels take two.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernel/window_axis.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/tensor/shape.h"

namespace cohort {

// ONNX's attributes of a window; an empty list stands for ONNX's default.
struct WindowParameters {
  std::string auto_pad = "NOTSET";
  // The extents of the window (attribute kernel_shape). For a convolution the list may be empty;
  // the window then has the extents of the weights.
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  // The paddings before the elements of each axis, then the paddings behind them.
  std::vector<int64_t> pads;
  bool ceil_mode = false;
};
WindowParameters ParseWindow(AttributeReader& reader);

// A window over all axes of a plane. Positions of all axes together are numbered in row-major
// order.
struct Window {
  std::vector<WindowAxis> axes;
  int64_t inputs = 1;
  int64_t outputs = 1;
  int64_t taps = 1;
};
// Checks one list attribute of a window: it must be empty, or hold `count` numbers from `least` on
// whose products cannot overflow. Errors: INVALID_ARGUMENT naming the list.
absl::Status CheckWindowList(const char* name, const std::vector<int64_t>& values, size_t count,
                             int64_t least);
// Checks all lists of a window over `count` axes, of which the kernel's must not be empty.
absl::Status CheckWindowLists(const WindowParameters& parameters, size_t count);
// Returns axis i of a window whose lists have been checked, without the extents of input and
// output.
WindowAxis PlainAxis(const WindowParameters& parameters, size_t i);
// Counts the positions of a window whose axes are set. Errors: INVALID_ARGUMENT for more positions
// than a tensor has elements.
absl::Status CountPositions(Window& window);
// Computes the window over an `image` of [batch, channels, ...]. Errors: INVALID_ARGUMENT naming
// the attribute or the axis that does not fit.
absl::StatusOr<Window> ResolveWindow(const Shape& image, const WindowParameters& parameters);

// Returns the shape of the result of an operator with a window, [batch, channels, ...]. Errors:
// INVALID_ARGUMENT for a result that its padding makes too large.
absl::StatusOr<Shape> WindowOutputShape(int64_t batch, int64_t channels, const Window& window);
// Checks that the gradient `dy` has the shape `y` of the operator's result.
absl::Status RequireResultShape(const Tensor& dy, const Shape& y);

// Calls visit(output, input, tap) for each tap (position in a window) that falls on an input
// position. The taps of one output come in row-major order.
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

// The attributes of a convolution over X [batch, groups * inputs, ...] with W [groups * outputs,
// inputs, ...].
struct ConvParameters {
  WindowParameters window;
  int64_t groups = 1;
};
ConvParameters ParseConv(AttributeReader& reader);

struct ConvShape {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t inputs = 0;   // channels of one group of X
  int64_t outputs = 0;  // channels of one group of Y
  Window window;
  Shape y;
};
// Computes the shape of a convolution. Errors: INVALID_ARGUMENT naming the shapes or the attribute
// that do not fit.
absl::StatusOr<ConvShape> ResolveConv(const Shape& x, const Shape& w,
                                      const ConvParameters& parameters);
// Computes the shape of the convolution to which a gradient operator belongs. Errors: those of
// ResolveConv, and INVALID_ARGUMENT if `dy` does not have the shape of the convolution's result.
absl::StatusOr<ConvShape> ResolveConvGrad(const Tensor& dy, const Shape& x, const Shape& w,
                                          const ConvParameters& parameters);
// Checks the optional bias of a convolution. Errors: INVALID_ARGUMENT for a bias that does not have
// one element for each output channel of `w`.
absl::Status CheckConvBias(const Tensor& w, const Tensor& bias);

struct PoolParameters {
  WindowParameters window;
  bool count_padding = false;  // whether AveragePool also counts padding in its divisor
  bool column_major = false;   // whether MaxPool numbers its indices in column-major order
};
PoolParameters ParseMaxPool(AttributeReader& reader);
PoolParameters ParseAveragePool(AttributeReader& reader);

struct PoolShape {
  int64_t planes = 0;  // number of planes, batch * channels
  Window window;
  Shape y;
};
absl::StatusOr<PoolShape> ResolvePool(const Shape& x, const PoolParameters& parameters);
absl::StatusOr<PoolShape> ResolvePoolGrad(const Tensor& dy, const Shape& x,
                                          const PoolParameters& parameters);

// The shape of a pooling whose window is the whole plane.
struct GlobalPoolShape {
  int64_t size = 0;  // number of elements of a plane
  Shape y;
};
absl::StatusOr<GlobalPoolShape> ResolveGlobalPool(const Tensor& x);

// Returns for each output position the number by which average pooling divides the sum of the
// window there.
std::vector<double> AverageDivisors(const Window& window, bool count_padding);

}  // namespace cohort
