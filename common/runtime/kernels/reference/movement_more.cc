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

// Neighbouring places along an axis of the result: the first one comes from the place `from` of the
// input's axis, and each further one from the place `step` behind that of its neighbour. All of
// them come from nowhere if `from` is kNowhere.
struct AxisRun {
  int64_t count = 0;
  int64_t from = 0;
  int64_t step = 1;
};

// For each of `size` places along an axis of the result, the place along the input's axis: a few
// runs, which repeat until `size` is reached. So a map takes no memory that grows with the axis.
struct AxisMap {
  std::vector<AxisRun> runs;
  int64_t size = 0;

  // Returns the number of places of all runs.
  int64_t Period() const {
    int64_t period = 0;
    for (const AxisRun& run : runs) period += run.count;
    return period;
  }
  // Returns the place along the input's axis from which the place `at` comes.
  int64_t Place(int64_t at, int64_t period) const {
    at %= period;
    for (const AxisRun& run : runs) {
      if (at < run.count) return run.from == kNowhere ? kNowhere : run.from + at * run.step;
      at -= run.count;
    }
    return kNowhere;
  }
};

// Returns a map of one run.
AxisMap OneRun(const AxisRun& run) { return {{run}, run.count}; }
AxisMap WholeAxis(int64_t size) { return OneRun({size, 0, 1}); }

struct Mapping {
  Shape input;
  Shape result;
  std::vector<AxisMap> axes;
};

// Makes a mapping from one map for each axis; the sizes of the maps are the extents of the result.
// Errors: INVALID_ARGUMENT for a result that is too large (CheckedShape).
absl::StatusOr<Mapping> MakeMapping(const Shape& input, std::vector<AxisMap> axes) {
  std::vector<int64_t> dims;
  for (const AxisMap& axis : axes) dims.push_back(axis.size);
  ASSIGN_OR_RETURN(Shape result, CheckedShape(dims));
  return Mapping{input, std::move(result), std::move(axes)};
}

// Elements of the result along its last axis, and where they come from, like an AxisRun.
struct Piece {
  int64_t to = 0;
  int64_t from = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// Calls move(piece) for each piece of one line of the result, which begins at the element `to`. The
// line of the input begins at the element `from`, or the line comes from nowhere.
template <typename Move>
void ForEachPieceOfLine(const AxisMap& axis, int64_t to, int64_t from, Move& move) {
  const int64_t end = to + axis.size;
  while (to < end) {
    for (const AxisRun& run : axis.runs) {
      const bool here = from != kNowhere && run.from != kNowhere;
      if (run.count > 0) move(Piece{to, here ? from + run.from : kNowhere, run.step, run.count});
      to += run.count;
    }
  }
}

// Calls move(piece) for pieces that together make up the result.
template <typename Move>
void ForEachPiece(const Mapping& mapping, Move move) {
  const int rank = mapping.result.rank();
  if (mapping.result.num_elements() == 0) return;
  if (rank == 0) return move(Piece{0, 0, 1, 1});
  const size_t outer = static_cast<size_t>(rank) - 1;
  std::vector<int64_t> strides(outer + 1, 1);
  std::vector<int64_t> periods(outer, 1);
  for (size_t axis = outer; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * mapping.input.dim(static_cast<int>(axis));
    periods[axis - 1] = mapping.axes[axis - 1].Period();
  }
  std::vector<int64_t> index(outer, 0);
  const int64_t line = mapping.result.dim(rank - 1);
  for (int64_t to = 0; to < mapping.result.num_elements(); to += line) {
    int64_t from = 0;
    for (size_t axis = 0; axis < outer && from != kNowhere; ++axis) {
      const int64_t place = mapping.axes[axis].Place(index[axis], periods[axis]);
      from = place == kNowhere ? kNowhere : from + place * strides[axis];
    }
    ForEachPieceOfLine(mapping.axes.back(), to, from, move);
    for (size_t axis = outer; axis > 0; --axis) {
      if (++index[axis - 1] < mapping.axes[axis - 1].size) break;
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
  ForEachPiece(mapping, [&](const Piece& piece) {
    std::byte* const place = out + static_cast<size_t>(piece.to) * size;
    const size_t bytes = static_cast<size_t>(piece.count) * size;
    if (piece.from != kNowhere && piece.step == 1) {
      std::memcpy(place, input.raw() + static_cast<size_t>(piece.from) * size, bytes);
    } else if (piece.from != kNowhere) {
      int64_t from = piece.from;
      for (size_t at = 0; at < bytes; at += size, from += piece.step) {
        std::memcpy(place + at, input.raw() + static_cast<size_t>(from) * size, size);
      }
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
    ForEachPiece(mapping, [&](const Piece& piece) {
      if (piece.from == kNowhere) return;
      for (int64_t i = 0; i < piece.count; ++i) {
        sums[static_cast<size_t>(piece.from + i * piece.step)] +=
            static_cast<double>(dy.data<T>()[piece.to + i]);
      }
    });
    T* out = context.Output(0, dy.dtype(), mapping.input).template mutable_data<T>();
    for (const double sum : sums) *out++ = static_cast<T>(sum);
    return absl::OkStatus();
  });
}

// The part of one axis that Slice takes.
struct AxisSlice {
  int64_t start = 0;
  int64_t end = 0;
  int64_t step = 1;
};

// Returns the places of an axis of `size` that `slice` selects. As in ONNX, a negative bound counts
// from the end, and bounds outside the axis are moved to its ends.
absl::StatusOr<AxisMap> SliceAxis(AxisSlice slice, int64_t size) {
  if (slice.step == 0) return absl::InvalidArgumentError("a step is 0");
  if (size == 0) return WholeAxis(0);
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
  const int64_t distance = forward ? slice.end - slice.start : slice.start - slice.end;
  const int64_t step = std::abs(slice.step);
  const int64_t count = distance <= 0 ? 0 : (distance - 1) / step + 1;
  return OneRun({count, slice.start, slice.step});
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

// The numbers of elements that Pad adds before and behind an axis; a negative one removes elements.
struct AxisPads {
  int64_t before = 0;
  int64_t behind = 0;
};

// Returns the places of a padded axis of `size`, which must not be fewer than none.
AxisMap PadAxis(PadMode mode, const AxisPads& pads, int64_t size) {
  // The result shows the places [low, high) of an axis that goes on at both ends.
  const int64_t low = -pads.before;
  const int64_t high = size + pads.behind;
  const int64_t behind_low = std::max(low, size);
  AxisRun before = {std::max<int64_t>(std::min<int64_t>(high, 0) - low, 0), kNowhere, 1};
  AxisRun behind = {std::max<int64_t>(high - behind_low, 0), kNowhere, 1};
  const int64_t first = std::max<int64_t>(low, 0);
  const AxisRun inside = {std::max<int64_t>(std::min(high, size) - first, 0), first, 1};
  if (mode == PadMode::kEdge) {
    before = {before.count, 0, 0};
    behind = {behind.count, size - 1, 0};
  } else if (mode == PadMode::kReflect) {
    before = {before.count, -low, -1};
    behind = {behind.count, 2 * (size - 1) - behind_low, -1};
  }
  return {{before, inside, behind}, high - low};
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
  std::vector<AxisMap> maps;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t size = input.dim(static_cast<int>(axis));
    const AxisPads each = {numbers[axis], numbers[axis + rank]};
    // Mirrored elements come from inside the axis, and the edge needs an element.
    const int64_t most = mode == PadMode::kReflect             ? size - 1
                         : mode == PadMode::kEdge && size == 0 ? 0
                                                               : kNewElementsMax;
    if (std::max(each.before, each.behind) > std::max<int64_t>(most, 0) ||
        each.before < -kNewElementsMax || each.behind < -kNewElementsMax) {
      return absl::InvalidArgumentError(absl::StrCat("pads ", each.before, " and ", each.behind,
                                                     " of axis ", axis, " are too large for ",
                                                     input.ToString()));
    }
    maps.push_back(PadAxis(mode, each, size));
  }
  return MakeMapping(input, std::move(maps));
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
    mapping.axes.push_back(OneRun({result.dim(axis), 0, repeated ? 0 : 1}));
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
  std::vector<AxisMap> maps;
  for (size_t axis = 0; axis < counts.size(); ++axis) {
    const int64_t size = input.dim(static_cast<int>(axis));
    int64_t dim = 0;
    if (counts[axis] < 0 || counts[axis] > kNewElementsMax ||
        __builtin_mul_overflow(size, counts[axis], &dim) || dim > kNewElementsMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "axis ", axis, " of ", input.ToString(), " cannot be repeated ", counts[axis], " times"));
    }
    // One element that is repeated is one run; a longer axis is a run that repeats.
    maps.push_back(size == 1 ? OneRun({dim, 0, 0}) : AxisMap{{{size, 0, 1}}, dim});
  }
  return MakeMapping(input, std::move(maps));
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
