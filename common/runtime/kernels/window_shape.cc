#include "common/runtime/kernels/window_shape.h"

#include <algorithm>

namespace cohort {

namespace {

// The upper bound of a window's extent, stride, dilation or padding. The product of two such
// numbers cannot overflow an int64.
constexpr int64_t kExtentMax = int64_t{1} << 30;

int64_t Or(const std::vector<int64_t>& values, size_t i, int64_t otherwise) {
  return values.empty() ? otherwise : values[i];
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Computes the paddings and the number of outputs of a window's axis from the axis's other fields.
absl::Status PlaceWindow(const WindowParameters& parameters, WindowAxis& axis) {
  const int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
  // With padding "SAME", the number of output positions is the input's extent divided by the
  // stride, rounded up; the padding follows from that number.
  if (parameters.auto_pad == "SAME_UPPER" || parameters.auto_pad == "SAME_LOWER") {
    axis.output = CeilDiv(axis.input, axis.stride);
    const int64_t pads =
        std::max<int64_t>((axis.output - 1) * axis.stride + extent - axis.input, 0);
    axis.pad_begin = parameters.auto_pad == "SAME_UPPER" ? pads / 2 : pads - pads / 2;
    axis.pad_end = pads - axis.pad_begin;
    return absl::OkStatus();
  }
  // The padded input has `room` + 1 positions at which the window may start; every stride-th of
  // them is used.
  const int64_t room = axis.input + axis.pad_begin + axis.pad_end - extent;
  if (room < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a window of ", extent, " does not fit into ",
                                                   axis.input + axis.pad_begin + axis.pad_end,
                                                   " positions (", axis.input, " and padding)"));
  }
  axis.output = (parameters.ceil_mode ? CeilDiv(room, axis.stride) : room / axis.stride) + 1;
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckWindowList(const char* name, const std::vector<int64_t>& values, size_t count,
                             int64_t least) {
  if (!values.empty() && values.size() != count) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", values.size(), " numbers, not ", count));
  }
  for (const int64_t value : values) {
    if (value < least || value > kExtentMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " holds ", value, ", not between ", least, " and ", kExtentMax));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWindowLists(const WindowParameters& parameters, size_t count) {
  if (parameters.kernel.empty()) return absl::InvalidArgumentError("has no kernel_shape");
  RETURN_IF_ERROR(CheckWindowList("kernel_shape", parameters.kernel, count, 1));
  RETURN_IF_ERROR(CheckWindowList("strides", parameters.strides, count, 1));
  RETURN_IF_ERROR(CheckWindowList("dilations", parameters.dilations, count, 1));
  return CheckWindowList("pads", parameters.pads, 2 * count, 0);
}

WindowAxis PlainAxis(const WindowParameters& parameters, size_t i) {
  WindowAxis axis;
  axis.kernel = parameters.kernel[i];
  axis.stride = Or(parameters.strides, i, 1);
  axis.dilation = Or(parameters.dilations, i, 1);
  axis.pad_begin = Or(parameters.pads, i, 0);
  axis.pad_end = Or(parameters.pads, i + parameters.kernel.size(), 0);
  return axis;
}

absl::Status CountPositions(Window& window) {
  const auto count = [&](int64_t WindowAxis::*extent) -> int64_t {
    int64_t product = 1;
    for (const WindowAxis& axis : window.axes) {
      if (__builtin_mul_overflow(product, axis.*extent, &product)) return kNewElementsMax + 1;
    }
    return product;
  };
  window.inputs = count(&WindowAxis::input);
  window.outputs = count(&WindowAxis::output);
  window.taps = count(&WindowAxis::kernel);
  // Kernels keep a number for each position of a plane, also if the batch is empty.
  if (std::max({window.inputs, window.outputs, window.taps}) > kNewElementsMax) {
    return absl::InvalidArgumentError(absl::StrCat("has more positions than the ", kNewElementsMax,
                                                   " elements that a tensor may have"));
  }
  return absl::OkStatus();
}

absl::Status RequireResultShape(const Tensor& dy, const Shape& y) {
  if (dy.shape() == y) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gradient ", dy.TypeString(), " where the operator gave ", y.ToString()));
}

WindowParameters ParseWindow(AttributeReader& reader) {
  WindowParameters parameters;
  parameters.auto_pad = reader.String("auto_pad", "NOTSET");
  parameters.kernel = reader.Ints("kernel_shape");
  parameters.strides = reader.Ints("strides");
  parameters.dilations = reader.Ints("dilations");
  parameters.pads = reader.Ints("pads");
  const std::string& pad = parameters.auto_pad;
  if (pad != "NOTSET" && pad != "VALID" && pad != "SAME_UPPER" && pad != "SAME_LOWER") {
    reader.Fail(absl::StrCat("auto_pad is '", pad, "'"));
  }
  const bool has_pads = std::any_of(parameters.pads.begin(), parameters.pads.end(),
                                    [](int64_t pad) { return pad != 0; });
  if (has_pads && parameters.auto_pad != "NOTSET") {
    reader.Fail("pads and auto_pad stand beside each other");
  }
  return parameters;
}

absl::StatusOr<Window> ResolveWindow(const Shape& image, const WindowParameters& parameters) {
  if (image.rank() < 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs [batch, channels, positions ...], not ", image.ToString()));
  }
  const auto count = static_cast<size_t>(image.rank() - 2);
  RETURN_IF_ERROR(CheckWindowLists(parameters, count));
  Window window;
  for (size_t i = 0; i < count; ++i) {
    WindowAxis axis = PlainAxis(parameters, i);
    axis.input = image.dim(static_cast<int>(i) + 2);
    RETURN_IF_ERROR(PlaceWindow(parameters, axis));
    window.axes.push_back(axis);
  }
  RETURN_IF_ERROR(CountPositions(window));
  return window;
}

absl::StatusOr<Shape> WindowOutputShape(int64_t batch, int64_t channels, const Window& window) {
  std::vector<int64_t> dims = {batch, channels};
  for (const WindowAxis& axis : window.axes) dims.push_back(axis.output);
  // Only padding makes a plane larger, and the padding may be any number. Without it, the result is
  // large only if the inputs are.
  if (window.outputs <= window.inputs) return Shape(dims);
  return CheckedShape(dims);
}

ConvParameters ParseConv(AttributeReader& reader) {
  ConvParameters parameters{ParseWindow(reader), reader.Int("group", 1)};
  if (parameters.groups < 1) reader.Fail(absl::StrCat("group is ", parameters.groups));
  return parameters;
}

absl::StatusOr<ConvShape> ResolveConv(const Shape& x, const Shape& w,
                                      const ConvParameters& parameters) {
  const int64_t groups = parameters.groups;
  bool fits = x.rank() >= 3 && w.rank() == x.rank();
  fits = fits && w.dim(0) % groups == 0 && x.dim(1) % groups == 0 && x.dim(1) / groups == w.dim(1);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("weights ", w.ToString(), " do not fit ",
                                                   x.ToString(), " in ", groups, " groups"));
  }
  const absl::Span<const int64_t> kernel = w.dims().subspan(2);
  WindowParameters window = parameters.window;
  // A convolution may lack the attribute kernel_shape; the window then has the extents of the
  // weights.
  if (window.kernel.empty()) window.kernel.assign(kernel.begin(), kernel.end());
  if (absl::MakeConstSpan(window.kernel) != kernel) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel_shape is not that of the weights ", w.ToString()));
  }
  ConvShape shape;
  shape.batch = x.dim(0);
  shape.groups = groups;
  shape.inputs = w.dim(1);
  shape.outputs = w.dim(0) / groups;
  ASSIGN_OR_RETURN(shape.window, ResolveWindow(x, window));
  ASSIGN_OR_RETURN(shape.y, WindowOutputShape(shape.batch, w.dim(0), shape.window));
  return shape;
}

absl::StatusOr<ConvShape> ResolveConvGrad(const Tensor& dy, const Shape& x, const Shape& w,
                                          const ConvParameters& parameters) {
  ASSIGN_OR_RETURN(ConvShape shape, ResolveConv(x, w, parameters));
  RETURN_IF_ERROR(RequireResultShape(dy, shape.y));
  return shape;
}

absl::Status CheckConvBias(const Tensor& w, const Tensor& bias) {
  if (!bias.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(RequireSameType(w, bias));
  if (bias.shape() == Shape{w.shape().dim(0)}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("bias ", bias.TypeString(), " for ", w.shape().dim(0), " channels"));
}

PoolParameters ParseMaxPool(AttributeReader& reader) {
  PoolParameters parameters;
  parameters.window = ParseWindow(reader);
  parameters.window.ceil_mode = reader.Flag("ceil_mode", false);
  parameters.column_major = reader.Flag("storage_order", false);
  return parameters;
}

PoolParameters ParseAveragePool(AttributeReader& reader) {
  PoolParameters parameters;
  parameters.window = ParseWindow(reader);
  parameters.window.ceil_mode = reader.Flag("ceil_mode", false);
  parameters.count_padding = reader.Flag("count_include_pad", false);
  return parameters;
}

absl::StatusOr<PoolShape> ResolvePool(const Shape& x, const PoolParameters& parameters) {
  PoolShape shape;
  ASSIGN_OR_RETURN(shape.window, ResolveWindow(x, parameters.window));
  shape.planes = x.dim(0) * x.dim(1);
  ASSIGN_OR_RETURN(shape.y, WindowOutputShape(x.dim(0), x.dim(1), shape.window));
  return shape;
}

absl::StatusOr<PoolShape> ResolvePoolGrad(const Tensor& dy, const Shape& x,
                                          const PoolParameters& parameters) {
  ASSIGN_OR_RETURN(PoolShape shape, ResolvePool(x, parameters));
  RETURN_IF_ERROR(RequireResultShape(dy, shape.y));
  return shape;
}

absl::StatusOr<GlobalPoolShape> ResolveGlobalPool(const Tensor& x) {
  const int rank = x.shape().rank();
  if (rank < 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs [batch, channels, positions ...], not ", x.TypeString()));
  }
  absl::InlinedVector<int64_t, 4> dims(static_cast<size_t>(rank), 1);
  dims[0] = x.shape().dim(0);
  dims[1] = x.shape().dim(1);
  return GlobalPoolShape{ViewAroundAxis(x.shape(), 1).inner, Shape(absl::MakeConstSpan(dims))};
}

std::vector<double> AverageDivisors(const Window& window, bool count_padding) {
  Window counted = window;
  if (count_padding) {  // the average counts padding as input elements
    for (WindowAxis& axis : counted.axes) {
      axis.input += axis.pad_begin + axis.pad_end;
      axis.pad_begin = axis.pad_end = 0;
    }
  }
  std::vector<double> divisors(static_cast<size_t>(window.outputs), 0);
  ForEachTap(counted,
             [&](int64_t output, int64_t, int64_t) { ++divisors[static_cast<size_t>(output)]; });
  // With ceil_mode, the last window may lie beyond the input; its sum is 0, so any divisor will do.
  for (double& divisor : divisors) divisor = std::max(divisor, 1.0);
  return divisors;
}

}  // namespace cohort
