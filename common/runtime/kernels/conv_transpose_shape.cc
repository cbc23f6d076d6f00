#include "common/runtime/kernels/conv_transpose_shape.h"

#include <algorithm>

namespace cohort {

namespace {

// Returns the attributes of the convolution with the kernel's extents, which may come from the
// weights. Errors: INVALID_ARGUMENT for weights that do not fit.
absl::StatusOr<WindowParameters> WindowOf(const Shape& x, const Shape& w,
                                          const ConvParameters& conv) {
  const bool fits =
      x.rank() >= 3 && w.rank() == x.rank() && x.dim(1) == w.dim(0) && w.dim(0) % conv.groups == 0;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("weights ", w.ToString(), " do not fit ",
                                                   x.ToString(), " in ", conv.groups, " groups"));
  }
  const absl::Span<const int64_t> kernel = w.dims().subspan(2);
  WindowParameters window = conv.window;
  if (window.kernel.empty()) window.kernel.assign(kernel.begin(), kernel.end());
  if (absl::MakeConstSpan(window.kernel) != kernel) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel_shape is not that of the weights ", w.ToString()));
  }
  return window;
}

// The choices of the attributes for one axis of y.
struct AxisChoice {
  bool same = false;    // whether y has the extent of x times the stride
  bool upper = false;   // whether an odd number of cut positions cuts one more at the end
  int64_t padding = 0;  // positions added at the end
  int64_t extent = -1;  // the given extent of y, or -1
};

// Sets the extent of y and the positions that are cut from it. All positions of y that x reaches
// are the full result; the paddings of the convolution are what is cut from it at both ends. An
// extent beyond the full result adds positions at the end that x does not reach.
absl::Status PlaceAxis(const AxisChoice& choice, WindowAxis& axis) {
  const int64_t reached = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
  const int64_t full = reached + choice.padding;
  if (choice.extent >= 0 || choice.same) {
    axis.input = choice.extent >= 0 ? choice.extent : axis.output * axis.stride;
    const int64_t cut = std::max<int64_t>(full - axis.input, 0);
    axis.pad_begin = choice.upper ? cut / 2 : cut - cut / 2;
  } else {
    axis.input = full - axis.pad_begin - axis.pad_end;
  }
  if (axis.input < 0) {
    return absl::InvalidArgumentError(absl::StrCat("pads ", axis.pad_begin, " and ", axis.pad_end,
                                                   " cut more than the ", full,
                                                   " positions of an axis"));
  }
  axis.pad_end = reached - axis.input - axis.pad_begin;
  return absl::OkStatus();
}

}  // namespace

ConvTransposeParameters ParseConvTranspose(AttributeReader& reader) {
  ConvTransposeParameters parameters;
  parameters.conv = ParseConv(reader);
  parameters.output_padding = reader.Ints("output_padding");
  parameters.output_shape = reader.Ints("output_shape");
  return parameters;
}

absl::StatusOr<ConvTransposeShape> ResolveConvTranspose(const Shape& x, const Shape& w,
                                                        const ConvTransposeParameters& parameters) {
  ASSIGN_OR_RETURN(const WindowParameters window, WindowOf(x, w, parameters.conv));
  const size_t count = window.kernel.size();
  RETURN_IF_ERROR(CheckWindowLists(window, count));
  RETURN_IF_ERROR(CheckWindowList("output_padding", parameters.output_padding, count, 0));
  RETURN_IF_ERROR(CheckWindowList("output_shape", parameters.output_shape, count, 0));
  AxisChoice choice;
  choice.upper = window.auto_pad == "SAME_UPPER";
  choice.same = choice.upper || window.auto_pad == "SAME_LOWER";
  ConvTransposeShape shape;
  shape.conv = {x.dim(0), parameters.conv.groups, w.dim(1), w.dim(0) / parameters.conv.groups, {},
                x};
  std::vector<int64_t> dims = {x.dim(0), w.dim(1) * parameters.conv.groups};
  for (size_t i = 0; i < count; ++i) {
    WindowAxis axis = PlainAxis(window, i);
    axis.output = x.dim(static_cast<int>(i) + 2);
    if (!parameters.output_padding.empty()) choice.padding = parameters.output_padding[i];
    if (!parameters.output_shape.empty()) choice.extent = parameters.output_shape[i];
    if (choice.padding > 0 && choice.padding >= std::max(axis.stride, axis.dilation)) {
      return absl::InvalidArgumentError(
          absl::StrCat("output_padding ", choice.padding,
                       " must be below the stride or the dilation, which are ", axis.stride,
                       " and ", axis.dilation));
    }
    RETURN_IF_ERROR(PlaceAxis(choice, axis));
    dims.push_back(axis.input);
    shape.conv.window.axes.push_back(axis);
  }
  ASSIGN_OR_RETURN(shape.y, CheckedShape(dims));
  RETURN_IF_ERROR(CountPositions(shape.conv.window));
  return shape;
}

absl::StatusOr<ConvTransposeShape> ResolveConvTransposeGrad(
    const Tensor& dy, const Shape& x, const Shape& w, const ConvTransposeParameters& parameters) {
  ASSIGN_OR_RETURN(ConvTransposeShape shape, ResolveConvTranspose(x, w, parameters));
  RETURN_IF_ERROR(RequireResultShape(dy, shape.y));
  return shape;
}

absl::Status CheckConvTransposeBias(const Tensor& w, const Tensor& bias,
                                    const ConvTransposeShape& shape) {
  if (!bias.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(RequireSameType(w, bias));
  const int64_t channels = shape.y.dim(1);
  if (bias.shape() == Shape{channels}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("bias ", bias.TypeString(), " for ", channels, " channels"));
}

}  // namespace cohort
