// Slice, Pad, Expand, Tile and their gradients.
//
// The operators take each element of the result from an element of the input whose place along each
// axis depends on that axis alone (AxisMap). One loop over these maps moves the elements for all
// four operators, and the same loop adds up the gradients.

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// The entry of an AxisMap for a place of the result whose elements do not come from the input.
constexpr int64_t kNowhere = -1;

// A map for one axis: entry i is the place along the input's axis from which the elements at place
// i of the result's axis come, or kNowhere.
using AxisMap = std::vector<int64_t>;

struct Mapping {
  Shape input;
  Shape result;
  std::vector<AxisMap> axes;
};

// Makes a mapping from one map for each axis; the sizes of the maps are the extents of the result.
// Errors: INVALID_ARGUMENT for a result that is too large (CheckedShape).
absl::StatusOr<Mapping> MakeMapping(const Shape& input, std::vector<AxisMap> axes) {
  std::vector<int64_t> dims;
  for (const AxisMap& axis : axes) dims.push_back(static_cast<int64_t>(axis.size()));
  ASSIGN_OR_RETURN(Shape result, CheckedShape(dims));
  return Mapping{input, std::move(result), std::move(axes)};
}

// A run of places along the last axis of the result that come from neighbouring places of the
// input, or of which none comes from the input.
struct Piece {
  int64_t to = 0;
  int64_t from = 0;
  int64_t count = 0;
};

std::vector<Piece> PiecesOf(const AxisMap& axis) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < axis.size(); ++i) {
    const bool here = axis[i] != kNowhere;
    if (!pieces.empty()) {
      Piece& last = pieces.back();
      const bool last_here = last.from != kNowhere;
      if (here == last_here && (!here || axis[i] == last.from + last.count)) {
        ++last.count;
        continue;
      }
    }
    pieces.push_back({static_cast<int64_t>(i), axis[i], 1});
  }
  return pieces;
}

// Calls move(to, from, count) for runs of elements of the result, with the offsets of their first
// elements in the result and in the input; `from` is kNowhere if the elements do not come from the
// input.
template <typename Move>
void ForEachPiece(const Mapping& mapping, Move move) {
  const int rank = mapping.result.rank();
  if (mapping.result.num_elements() == 0) return;
  if (rank == 0) return move(0, 0, 1);
  std::vector<int64_t> strides(static_cast<size_t>(rank), 1);
  for (int axis = rank - 2; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] =
        strides[static_cast<size_t>(axis) + 1] * mapping.input.dim(axis + 1);
  }
  const std::vector<Piece> pieces = PiecesOf(mapping.axes.back());
  const int64_t line = mapping.result.dim(rank - 1);
  std::vector<size_t> index(static_cast<size_t>(rank) - 1, 0);
  for (int64_t to = 0; to < mapping.result.num_elements(); to += line) {
    int64_t from = 0;
    for (size_t axis = 0; axis < index.size() && from != kNowhere; ++axis) {
      const int64_t place = mapping.axes[axis][index[axis]];
      from = place == kNowhere ? kNowhere : from + place * strides[axis];
    }
    for (const Piece& piece : pieces) {
      const bool here = from != kNowhere && piece.from != kNowhere;
      move(to + piece.to, here ? from + piece.from : kNowhere, piece.count);
    }
    for (size_t axis = index.size(); axis > 0; --axis) {
      if (++index[axis - 1] < mapping.axes[axis - 1].size()) break;
      index[axis - 1] = 0;
    }
  }
}

// Writes output 0: the result of `mapping` for `input`. Elements that do not come from the input
// become `filling`, a tensor of one element, or 0 if `filling` has no value.
void RunMapping(KernelContext& context, const Tensor& input, const Mapping& mapping,
                const Tensor& filling) {
  const size_t size = ElementSize(input.dtype());
  std::byte* const out = context.Output(0, input.dtype(), mapping.result).mutable_raw();
  ForEachPiece(mapping, [&](int64_t to, int64_t from, int64_t count) {
    std::byte* const place = out + static_cast<size_t>(to) * size;
    const size_t bytes = static_cast<size_t>(count) * size;
    if (from != kNowhere) {
      std::memcpy(place, input.raw() + static_cast<size_t>(from) * size, bytes);
    } else if (filling.has_value()) {
      for (size_t at = 0; at < bytes; at += size) std::memcpy(place + at, filling.raw(), size);
    } else {
      std::memset(place, 0, bytes);
    }
  });
}

// Writes output 0: the gradient of a mapping's input. The gradient of an element is the sum of dy
// (input 0) over all elements of the result that come from this element.
absl::Status RunMappingGrad(KernelContext& context, const Mapping& mapping) {
  const Tensor& dy = context.input(0);
  if (dy.shape() != mapping.result) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradient ", dy.TypeString(), " of a result of shape ", mapping.result.ToString()));
  }
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::vector<double> sums(static_cast<size_t>(mapping.input.num_elements()), 0);
    ForEachPiece(mapping, [&](int64_t to, int64_t from, int64_t count) {
      if (from == kNowhere) return;
      for (int64_t i = 0; i < count; ++i) {
        sums[static_cast<size_t>(from + i)] += static_cast<double>(dy.data<T>()[to + i]);
      }
    });
    T* out = context.Output(0, dy.dtype(), mapping.input).template mutable_data<T>();
    for (const double sum : sums) *out++ = static_cast<T>(sum);
    return absl::OkStatus();
  });
}

AxisMap WholeAxis(int64_t size) {
  AxisMap axis(static_cast<size_t>(size));
  std::iota(axis.begin(), axis.end(), 0);
  return axis;
}

// The start, end and step of Slice along one axis.
struct AxisSlice {
  int64_t start = 0;
  int64_t end = 0;
  int64_t step = 1;
};

// Returns the places of an axis of `size` that `slice` selects. As in ONNX, a negative bound counts
// from the end, and bounds outside the axis are moved to its ends.
absl::StatusOr<AxisMap> SliceAxis(AxisSlice slice, int64_t size) {
  if (slice.step == 0) return absl::InvalidArgumentError("a step is 0");
  if (size == 0) return AxisMap();
  if (slice.start < 0) slice.start += size;
  if (slice.end < 0) slice.end += size;
  // The place `end` itself is not selected. So a backward slice that selects the place 0 ends at
  // -1.
  const bool forward = slice.step > 0;
  slice.start = std::clamp<int64_t>(slice.start, 0, forward ? size : size - 1);
  slice.end = std::clamp<int64_t>(slice.end, forward ? 0 : -1, forward ? size : size - 1);
  // A step that is longer than the axis selects one place. It is shortened to size + 1, so that at
  // + step cannot overflow.
  slice.step = std::clamp(slice.step, -size - 1, size + 1);
  AxisMap axis;
  for (int64_t at = slice.start; forward ? at < slice.end : at > slice.end; at += slice.step) {
    axis.push_back(at);
  }
  return axis;
}

// Returns the mapping of Slice for an input of the shape `input`. The starts are input `first` of
// the node; the ends, the axes and the steps are the next three inputs.
absl::StatusOr<Mapping> SliceMapping(const KernelContext& context, const Shape& input, int first) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> starts, ToInt64s(context.input(first)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> ends, ToInt64s(context.input(first + 1)));
  std::vector<int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::vector<int64_t> steps(starts.size(), 1);
  if (InputOr(context, first + 2).has_value()) {
    ASSIGN_OR_RETURN(axes, ToInt64s(context.input(first + 2)));
  }
  if (InputOr(context, first + 3).has_value()) {
    ASSIGN_OR_RETURN(steps, ToInt64s(context.input(first + 3)));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(starts.size(), " starts, ", ends.size(), " ends, ", axes.size(), " axes and ",
                     steps.size(), " steps: they must be equally many"));
  }
  std::vector<AxisMap> maps;
  for (const int64_t dim : input.dims()) maps.push_back(WholeAxis(dim));
  std::vector<bool> sliced(maps.size(), false);
  for (size_t i = 0; i < starts.size(); ++i) {
    ASSIGN_OR_RETURN(const int axis, NormalAxis(axes[i], input.rank()));
    const size_t place = static_cast<size_t>(axis);
    if (sliced[place]) {
      return absl::InvalidArgumentError(absl::StrCat("axis ", axes[i], " is sliced twice"));
    }
    sliced[place] = true;
    ASSIGN_OR_RETURN(maps[place], SliceAxis({starts[i], ends[i], steps[i]}, input.dim(axis)));
  }
  return MakeMapping(input, std::move(maps));
}

absl::Status RunSlice(KernelContext& context) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const Mapping mapping, SliceMapping(context, input.shape(), 1));
  RunMapping(context, input, mapping, Tensor());
  return absl::OkStatus();
}

absl::Status RunSliceGrad(KernelContext& context) {
  ASSIGN_OR_RETURN(const Mapping mapping, SliceMapping(context, context.input(1).shape(), 2));
  return RunMappingGrad(context, mapping);
}

enum class PadMode { kConstant, kReflect, kEdge };

struct PadParameters {
  PadMode mode = PadMode::kConstant;
};

PadParameters ParsePad(AttributeReader& reader) {
  const std::string mode = reader.String("mode", "constant");
  if (mode == "reflect") return {PadMode::kReflect};
  if (mode == "edge") return {PadMode::kEdge};
  if (mode != "constant") reader.Fail("unknown attribute 'mode'; use constant, reflect or edge");
  return {};
}

// Returns the place along an axis of `size` from which padding at the place `at` takes its
// elements. If `at` lies inside the axis, the result is `at` itself.
int64_t PadPlace(PadMode mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == PadMode::kConstant) return kNowhere;
  if (mode == PadMode::kEdge) return at < 0 ? 0 : size - 1;
  return at < 0 ? -at : 2 * (size - 1) - at;
}

// Returns the mapping of Pad for an input of the shape `input`; `pads` holds the numbers of
// elements to add before each axis, then those to add behind each axis. A negative number removes
// elements.
absl::StatusOr<Mapping> PadMapping(const Shape& input, const Tensor& pads, PadMode mode) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, ToInt64s(pads));
  const size_t rank = static_cast<size_t>(input.rank());
  if (numbers.size() != 2 * rank) {
    return absl::InvalidArgumentError(absl::StrCat(numbers.size(), " pads for ", input.ToString(),
                                                   ": two for each axis are needed"));
  }
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t size = input.dim(static_cast<int>(axis));
    const int64_t before = numbers[axis];
    const int64_t behind = numbers[axis + rank];
    // Padding by reflection can add fewer elements than the axis has, and padding by the edge needs
    // an axis with an element.
    const int64_t most = mode == PadMode::kReflect             ? size - 1
                         : mode == PadMode::kEdge && size == 0 ? 0
                                                               : kNewElementsMax;
    if (std::max(before, behind) > std::max<int64_t>(most, 0) || before < -kNewElementsMax ||
        behind < -kNewElementsMax) {
      return absl::InvalidArgumentError(absl::StrCat("pads ", before, " and ", behind, " of axis ",
                                                     axis, " are too large for ",
                                                     input.ToString()));
    }
    dims.push_back(size + before + behind);
  }
  ASSIGN_OR_RETURN(const Shape result, CheckedShape(dims));
  std::vector<AxisMap> maps(rank);
  // The extents of an empty result are limited, too, because a map is made for every axis.
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t size = input.dim(static_cast<int>(axis));
    if (dims[axis] > kNewElementsMax) return absl::InvalidArgumentError("an axis is too long");
    for (int64_t i = 0; i < dims[axis]; ++i) {
      maps[axis].push_back(PadPlace(mode, i - numbers[axis], size));
    }
  }
  return Mapping{input, result, std::move(maps)};
}

absl::Status RunPad(KernelContext& context, const PadParameters& parameters) {
  const Tensor& input = context.input(0);
  const Tensor& constant = InputOr(context, 2);
  if (constant.has_value()) {
    RETURN_IF_ERROR(RequireSameType(input, constant));
    if (constant.num_elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the constant is ", constant.TypeString(), ", not a scalar"));
    }
  }
  ASSIGN_OR_RETURN(const Mapping mapping,
                   PadMapping(input.shape(), context.input(1), parameters.mode));
  RunMapping(context, input, mapping, constant);
  return absl::OkStatus();
}

absl::Status RunPadGrad(KernelContext& context, const PadParameters& parameters) {
  ASSIGN_OR_RETURN(const Mapping mapping,
                   PadMapping(context.input(1).shape(), context.input(2), parameters.mode));
  return RunMappingGrad(context, mapping);
}

absl::Status RunExpand(KernelContext& context) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ToInt64s(context.input(1)));
  ASSIGN_OR_RETURN(const Shape target, CheckedShape(dims));
  ASSIGN_OR_RETURN(const Shape both, BroadcastShape(input.shape(), target));
  ASSIGN_OR_RETURN(const Shape result, CheckedShape(both.dims()));
  std::vector<int64_t> padded(static_cast<size_t>(result.rank() - input.shape().rank()), 1);
  padded.insert(padded.end(), input.shape().dims().begin(), input.shape().dims().end());
  Mapping mapping = {Shape(padded), result, {}};
  for (int axis = 0; axis < result.rank(); ++axis) {
    const bool repeated = mapping.input.dim(axis) == 1;
    mapping.axes.push_back(repeated ? AxisMap(static_cast<size_t>(result.dim(axis)), 0)
                                    : WholeAxis(result.dim(axis)));
  }
  RunMapping(context, input, mapping, Tensor());
  return absl::OkStatus();
}

// Returns the mapping of Tile for an input of the shape `input`. `repeats` holds for each axis how
// often Tile repeats the input along it. Errors: INVALID_ARGUMENT for a negative number, or a
// result that is too large.
absl::StatusOr<Mapping> TileMapping(const Shape& input, const Tensor& repeats) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> counts, ToInt64s(repeats));
  if (counts.size() != static_cast<size_t>(input.rank())) {
    return absl::InvalidArgumentError(absl::StrCat(counts.size(), " repeats for ", input.ToString(),
                                                   ": one for each axis is needed"));
  }
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < counts.size(); ++axis) {
    int64_t dim = 0;
    if (counts[axis] < 0 || counts[axis] > kNewElementsMax ||
        __builtin_mul_overflow(input.dim(static_cast<int>(axis)), counts[axis], &dim) ||
        dim > kNewElementsMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "axis ", axis, " of ", input.ToString(), " cannot be repeated ", counts[axis], " times"));
    }
    dims.push_back(dim);
  }
  ASSIGN_OR_RETURN(const Shape result, CheckedShape(dims));
  Mapping mapping = {input, result, {}};
  for (int axis = 0; axis < result.rank(); ++axis) {
    AxisMap map;
    for (int64_t i = 0; i < result.dim(axis); ++i) map.push_back(i % input.dim(axis));
    mapping.axes.push_back(std::move(map));
  }
  return mapping;
}

absl::Status RunTile(KernelContext& context) {
  const Tensor& input = context.input(0);
  ASSIGN_OR_RETURN(const Mapping mapping, TileMapping(input.shape(), context.input(1)));
  RunMapping(context, input, mapping, Tensor());
  return absl::OkStatus();
}

absl::Status RunTileGrad(KernelContext& context) {
  ASSIGN_OR_RETURN(const Mapping mapping, TileMapping(context.input(1).shape(), context.input(2)));
  return RunMappingGrad(context, mapping);
}

}  // namespace

void RegisterReferenceMovementMore(KernelRegistry& registry) {
  registry.Add("", "Slice", PlainKernel({3, 5, {kAnyType, kIndices}}, RunSlice));
  registry.Add("cohort", "SliceGrad",
               PlainKernel({4, 6, {kFloats, kAnyType, kIndices}}, RunSliceGrad));
  registry.Add(
      "", "Pad",
      BoundKernel<PadParameters>({2, 3, {kAnyType, kIndices, kAnyType}}, ParsePad, RunPad));
  registry.Add(
      "cohort", "PadGrad",
      BoundKernel<PadParameters>({3, 3, {kFloats, kAnyType, kIndices}}, ParsePad, RunPadGrad));
  registry.Add("", "Expand", PlainKernel({2, 2, {kAnyType, kIndices}}, RunExpand));
  registry.Add("", "Tile", PlainKernel({2, 2, {kAnyType, kIndices}}, RunTile));
  registry.Add("cohort", "TileGrad",
               PlainKernel({3, 3, {kFloats, kAnyType, kIndices}}, RunTileGrad));
}

}  // namespace cohort
