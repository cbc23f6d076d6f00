// Resize and its gradient. An element of the result is a sum of elements of the input, its taps,
// each with a weight. Taps and weights along an axis depend on that axis alone, and those of all
// axes multiply. The gradient adds dy, times the weight, to each tap.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

enum class ResizeMode { kNearest, kLinear, kCubic };
enum class NearestMode { kPreferFloor, kPreferCeil, kFloor, kCeil };
// How a place in the result becomes a place in the input.
enum class CoordinateMode {
  kHalfPixel,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kCropAndResize,
  kHalfPixelForNearest,
};

struct ResizeParameters {
  ResizeMode mode = ResizeMode::kNearest;
  NearestMode nearest = NearestMode::kPreferFloor;
  CoordinateMode coordinates = CoordinateMode::kHalfPixel;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  double extrapolation = 0;
};

// A value of an enumeration and its name in ONNX.
template <typename Value>
struct Named {
  const char* name;
  Value value;
};

// Reads a string attribute that names a value.
template <typename Value, size_t kCount>
Value ReadNamed(AttributeReader& reader, const char* attribute, const char* otherwise,
                const Named<Value> (&values)[kCount]) {
  const std::string name = reader.String(attribute, otherwise);
  std::string names;
  for (const Named<Value>& each : values) {
    if (name == each.name) return each.value;
    absl::StrAppend(&names, names.empty() ? "" : ", ", each.name);
  }
  reader.Fail(absl::StrCat("unknown ", attribute, " '", name, "'; use one of ", names));
  return values[0].value;
}

ResizeParameters ParseResize(AttributeReader& reader) {
  constexpr Named<ResizeMode> kModes[] = {{"nearest", ResizeMode::kNearest},
                                          {"linear", ResizeMode::kLinear},
                                          {"cubic", ResizeMode::kCubic}};
  constexpr Named<NearestMode> kNearestModes[] = {{"round_prefer_floor", NearestMode::kPreferFloor},
                                                  {"round_prefer_ceil", NearestMode::kPreferCeil},
                                                  {"floor", NearestMode::kFloor},
                                                  {"ceil", NearestMode::kCeil}};
  constexpr Named<CoordinateMode> kCoordinates[] = {
      {"half_pixel", CoordinateMode::kHalfPixel},
      {"pytorch_half_pixel", CoordinateMode::kPytorchHalfPixel},
      {"align_corners", CoordinateMode::kAlignCorners},
      {"asymmetric", CoordinateMode::kAsymmetric},
      {"tf_crop_and_resize", CoordinateMode::kCropAndResize},
      {"tf_half_pixel_for_nn", CoordinateMode::kHalfPixelForNearest}};  // opset 11 has it
  ResizeParameters parameters;
  parameters.mode = ReadNamed(reader, "mode", "nearest", kModes);
  parameters.nearest = ReadNamed(reader, "nearest_mode", "round_prefer_floor", kNearestModes);
  parameters.coordinates =
      ReadNamed(reader, "coordinate_transformation_mode", "half_pixel", kCoordinates);
  parameters.cubic_a = static_cast<double>(reader.Float("cubic_coeff_a", -0.75f));
  parameters.exclude_outside = reader.Flag("exclude_outside", false);
  parameters.extrapolation = static_cast<double>(reader.Float("extrapolation_value", 0));
  return parameters;
}

// An element along an axis, or of the whole input, and its weight.
struct Tap {
  int64_t at = 0;
  double weight = 1;
};
// The taps of one place along an axis; outside: the place gets the extrapolation value.
struct AxisTaps {
  static constexpr int kMax = 4;
  Tap taps[kMax];
  int count = 0;
  bool outside = false;

  void Add(const Tap& tap) { taps[count++] = tap; }
};

// One axis of a Resize.
struct ResizeAxis {
  int64_t input = 1;
  int64_t output = 1;
  double scale = 0;  // 0: the extents give it
  double crop_begin = 0;
  double crop_end = 1;

  // Returns the place in the input, counted in input elements, of a place counted in output
  // elements. Without a given scale no rounding comes before the division, so ties stay ties.
  double Scaled(double at) const {
    return scale != 0 ? at / scale : at * static_cast<double>(input) / static_cast<double>(output);
  }
  // Returns whether each element of the result is one of the input at the same place.
  bool Stays() const {
    return input == output && (scale == 0 || scale == 1) && crop_begin == 0 && crop_end == 1;
  }
};

double SourceOf(const ResizeParameters& parameters, const ResizeAxis& axis, int64_t output) {
  const double at = static_cast<double>(output);
  const double last = static_cast<double>(axis.input - 1);
  const double last_output = static_cast<double>(axis.output - 1);
  switch (parameters.coordinates) {
    case CoordinateMode::kHalfPixel:
      return axis.Scaled(at + 0.5) - 0.5;
    case CoordinateMode::kPytorchHalfPixel:
      return axis.output > 1 ? axis.Scaled(at + 0.5) - 0.5 : 0;
    case CoordinateMode::kAlignCorners:
      return axis.output > 1 ? at * last / last_output : 0;
    case CoordinateMode::kAsymmetric:
      return axis.Scaled(at);
    case CoordinateMode::kHalfPixelForNearest:
      return axis.Scaled(at + 0.5);
    case CoordinateMode::kCropAndResize:
      return axis.output > 1 ? axis.crop_begin * last +
                                   at * (axis.crop_end - axis.crop_begin) * last / last_output
                             : 0.5 * (axis.crop_begin + axis.crop_end) * last;
  }
  return 0;
}

double Nearest(NearestMode mode, double source) {
  switch (mode) {
    case NearestMode::kPreferFloor:
      return std::ceil(source - 0.5);
    case NearestMode::kPreferCeil:
      return std::floor(source + 0.5);
    case NearestMode::kFloor:
      return std::floor(source);
    case NearestMode::kCeil:
      return std::ceil(source);
  }
  return source;
}

// Returns the weight of a neighbour at this distance, by Keys's kernel.
double CubicWeight(double a, double distance) {
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// Returns the taps of a place along an axis that has elements. Neighbours outside the axis count as
// its first or last element, or not at all if they are excluded.
AxisTaps TapsOf(const ResizeParameters& parameters, const ResizeAxis& axis, int64_t output) {
  AxisTaps taps;
  const double source = SourceOf(parameters, axis, output);
  const double last = static_cast<double>(axis.input - 1);
  taps.outside =
      parameters.coordinates == CoordinateMode::kCropAndResize && !(source >= 0 && source <= last);
  if (taps.outside) return taps;
  const auto inside = [&](double at) { return static_cast<int64_t>(std::clamp(at, 0.0, last)); };
  if (parameters.mode == ResizeMode::kNearest) {
    taps.Add({inside(Nearest(parameters.nearest, source)), 1});
    return taps;
  }
  const double low = std::floor(source);
  if (parameters.mode == ResizeMode::kLinear) {
    taps.Add({inside(low), 1 - (source - low)});
    if (source != low) taps.Add({inside(low + 1), source - low});
    return taps;
  }
  double sum = 0;
  for (int k = -1; k <= 2; ++k) {
    const double at = low + k;
    const double weight = CubicWeight(parameters.cubic_a, source - at);
    if (weight == 0 || (parameters.exclude_outside && (at < 0 || at > last))) continue;
    taps.Add({inside(at), weight});
    sum += weight;
  }
  if (!parameters.exclude_outside) return taps;
  for (int i = 0; i < taps.count; ++i) taps.taps[i].weight /= sum;
  return taps;
}

// A Resize of an input of the shape `input`.
struct ResizePlan {
  Shape input;
  Shape result;
  std::vector<ResizeAxis> axes;
  std::vector<int64_t> strides;  // those of the input
};

constexpr DTypeSet kScales = {DType::kFloat32};
// The most axes along which elements are added up, since taps multiply.
constexpr int kWeightedAxesMax = 3;

// Returns input `i` of the node, which has one of these types, or null if it is absent or, as in
// ONNX before opset 13, empty.
absl::StatusOr<const Tensor*> Given(const KernelContext& context, int i, const DTypeSet& dtypes) {
  const Tensor& tensor = InputOr(context, i);
  if (!tensor.has_value()) return nullptr;
  RETURN_IF_ERROR(RequireTypeIn(tensor, dtypes));
  return tensor.num_elements() > 0 ? &tensor : nullptr;
}

absl::StatusOr<std::vector<double>> ToDoubles(const Tensor& tensor) {
  std::vector<double> values;
  RETURN_IF_ERROR(DispatchFloats(tensor, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (const T value : tensor.span<T>()) values.push_back(static_cast<double>(value));
    return absl::OkStatus();
  }));
  return values;
}

absl::Status RequireCount(const char* name, size_t count, size_t wanted) {
  if (count == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " has ", count, " numbers, not ", wanted));
}

// Sets the extents of the result from the scales or the sizes.
absl::Status SetExtents(const Tensor* scales, const Tensor* sizes, std::vector<ResizeAxis>& axes) {
  if ((scales == nullptr) == (sizes == nullptr)) {
    return absl::InvalidArgumentError("needs either scales or sizes");
  }
  if (sizes != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, ToInt64s(*sizes));
    RETURN_IF_ERROR(RequireCount("sizes", numbers.size(), axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) axes[i].output = numbers[i];
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(RequireCount("scales", static_cast<size_t>(scales->num_elements()), axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const float scale = scales->data<float>()[i];
    // The product is one of float32, as in ONNX's shape inference.
    const float extent = static_cast<float>(axes[i].input) * scale;
    if (!(scale > 0) || !(extent <= static_cast<float>(kNewElementsMax))) {
      return absl::InvalidArgumentError(
          absl::StrCat("scale ", scale, " of an axis of ", axes[i].input, " is not possible"));
    }
    axes[i].output = static_cast<int64_t>(std::floor(extent));
    axes[i].scale = static_cast<double>(scale);
  }
  return absl::OkStatus();
}

// Sets the part of each axis that tf_crop_and_resize takes, in shares of the axis.
absl::Status SetCrop(const Tensor* roi, std::vector<ResizeAxis>& axes) {
  if (roi == nullptr) return absl::InvalidArgumentError("tf_crop_and_resize needs a roi");
  ASSIGN_OR_RETURN(const std::vector<double> numbers, ToDoubles(*roi));
  RETURN_IF_ERROR(RequireCount("roi", numbers.size(), 2 * axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i].crop_begin = numbers[i];
    axes[i].crop_end = numbers[i + axes.size()];
    if (!std::isfinite(numbers[i]) || !std::isfinite(axes[i].crop_end)) {
      return absl::InvalidArgumentError("roi needs finite numbers");
    }
  }
  return absl::OkStatus();
}

// Plans the Resize of an input of the shape `input`. The roi is input `first` of the node; scales
// and sizes follow.
absl::StatusOr<ResizePlan> PlanResize(const KernelContext& context, const Shape& input, int first,
                                      const ResizeParameters& parameters) {
  ResizePlan plan;
  plan.input = input;
  plan.strides.assign(static_cast<size_t>(input.rank()), 1);
  for (int axis = input.rank() - 1; axis > 0; --axis) {
    plan.strides[static_cast<size_t>(axis) - 1] =
        plan.strides[static_cast<size_t>(axis)] * input.dim(axis);
  }
  for (const int64_t dim : input.dims()) plan.axes.push_back({dim, dim, 0, 0, 1});
  ASSIGN_OR_RETURN(const Tensor* const roi, Given(context, first, kFloats));
  ASSIGN_OR_RETURN(const Tensor* const scales, Given(context, first + 1, kScales));
  ASSIGN_OR_RETURN(const Tensor* const sizes, Given(context, first + 2, kIndices));
  if (parameters.coordinates == CoordinateMode::kCropAndResize) {
    if (sizes == nullptr) return absl::InvalidArgumentError("tf_crop_and_resize needs sizes");
    RETURN_IF_ERROR(SetCrop(roi, plan.axes));
  }
  RETURN_IF_ERROR(SetExtents(scales, sizes, plan.axes));
  std::vector<int64_t> dims;
  int weighted = 0;
  for (const ResizeAxis& axis : plan.axes) {
    dims.push_back(axis.output);
    weighted += axis.Stays() ? 0 : 1;
  }
  ASSIGN_OR_RETURN(plan.result, CheckedShape(dims));
  if (parameters.mode != ResizeMode::kNearest && weighted > kWeightedAxesMax) {
    return absl::InvalidArgumentError(absl::StrCat("would interpolate along ", weighted,
                                                   " axes: at most ", kWeightedAxesMax,
                                                   " are possible"));
  }
  if (input.num_elements() == 0 && plan.result.num_elements() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(input.ToString(), " has no elements to make ", plan.result.ToString()));
  }
  return plan;
}

// A walk over the elements of the result. Thread-compatible.
class ResizeWalk {
 public:
  ResizeWalk(const ResizeParameters& parameters, const ResizePlan& plan)
      : parameters_(parameters), plan_(plan), taps_(plan.axes.size() + 1) {
    taps_[0] = {Tap{}};
  }

  // Calls visit(taps) for each element of the result in their order; no taps stand for an element
  // outside the input.
  template <typename Visit>
  void Run(const Visit& visit) {
    if (plan_.result.num_elements() > 0) RunAxis(0, visit);
  }

 private:
  // Goes through the places along an axis. taps_[axis] has the taps of the axes before.
  template <typename Visit>
  void RunAxis(size_t axis, const Visit& visit) {
    if (axis == plan_.axes.size()) return visit(taps_[axis]);
    std::vector<Tap>& next = taps_[axis + 1];
    for (int64_t at = 0; at < plan_.axes[axis].output; ++at) {
      const AxisTaps here = TapsOf(parameters_, plan_.axes[axis], at);
      next.clear();
      for (const Tap& before : taps_[axis]) {
        for (int i = 0; i < here.count; ++i) {
          next.push_back({before.at + here.taps[i].at * plan_.strides[axis],
                          before.weight * here.taps[i].weight});
        }
      }
      RunAxis(axis + 1, visit);
    }
  }

  const ResizeParameters& parameters_;
  const ResizePlan& plan_;
  std::vector<std::vector<Tap>> taps_;
};

absl::Status RunResize(KernelContext& context, const ResizeParameters& parameters) {
  const Tensor& x = context.input(0);
  ASSIGN_OR_RETURN(const ResizePlan plan, PlanResize(context, x.shape(), 1, parameters));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const in = x.data<T>();
    T* out = context.Output(0, x.dtype(), plan.result).template mutable_data<T>();
    ResizeWalk(parameters, plan).Run([&](const std::vector<Tap>& taps) {
      double sum = taps.empty() ? parameters.extrapolation : 0;
      for (const Tap& tap : taps) sum += static_cast<double>(in[tap.at]) * tap.weight;
      *out++ = static_cast<T>(sum);
    });
    return absl::OkStatus();
  });
}

absl::Status RunResizeGrad(KernelContext& context, const ResizeParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Shape& x = context.input(1).shape();
  ASSIGN_OR_RETURN(const ResizePlan plan, PlanResize(context, x, 2, parameters));
  if (dy.shape() != plan.result) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", dy.TypeString(), " where Resize gave ", plan.result.ToString()));
  }
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* grad = dy.data<T>();
    std::vector<double> sums(static_cast<size_t>(x.num_elements()), 0.0);
    ResizeWalk(parameters, plan).Run([&](const std::vector<Tap>& taps) {
      const double each = static_cast<double>(*grad++);
      for (const Tap& tap : taps) sums[static_cast<size_t>(tap.at)] += each * tap.weight;
    });
    T* out = context.Output(0, dy.dtype(), x).template mutable_data<T>();
    for (const double sum : sums) *out++ = static_cast<T>(sum);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceResize(KernelRegistry& registry) {
  registry.Add("", "Resize",
               BoundKernel<ResizeParameters>({1, 4, {kFloats, kFloats, kScales, kIndices}},
                                             ParseResize, RunResize));
  registry.Add(
      "cohort", "ResizeGrad",
      BoundKernel<ResizeParameters>({2, 5, {kFloats, kAnyType, kFloats, kScales, kIndices}},
                                    ParseResize, RunResizeGrad));
}

}  // namespace cohort
