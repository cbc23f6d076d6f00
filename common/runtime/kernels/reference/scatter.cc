// GatherElements, GatherND and the operators that are their opposites. Each of these operators
// pairs the blocks of one tensor (the result or the updates) with places in another tensor, the
// data. Gathering copies a block from its place in the data, and scattering writes a block to its
// place. A block is an element, or for the ND operators a contiguous part of the data. All indices
// are checked, and all pairs are made, before anything is copied.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

// The places in the data for the blocks of the other tensor: block i has its place at offsets[i].
struct Places {
  std::vector<int64_t> offsets;  // offsets in the data, counted in elements
  int64_t slice = 1;             // number of elements of a block
  Shape shape;                   // shape of the other tensor, the result or the updates
};

// Returns an index counted from 0; a negative `index` counts from the end of an axis of `size`.
// Errors: INVALID_ARGUMENT for an index outside [-size, size).
absl::StatusOr<int64_t> NormalIndex(int64_t index, int64_t size) {
  if (index < -size || index >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat("index ", index, " is not in [-", size, ", ", size, ")"));
  }
  return index < 0 ? index + size : index;
}

// Returns the places that GatherElements and ScatterElements use. An index gives the place along
// `axis`; along every other axis, the place is the index's own position in the tensor of indices.
absl::StatusOr<Places> ElementPlaces(const Shape& data, const Tensor& indices, int64_t any_axis) {
  ASSIGN_OR_RETURN(const int axis, NormalAxis(any_axis, data.rank()));
  const Shape& shape = indices.shape();
  bool fits = shape.rank() == data.rank();
  for (int each = 0; fits && each < data.rank(); ++each) {
    fits = each == axis || shape.dim(each) <= data.dim(each);
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("indices ", indices.TypeString(),
                                                   " do not fit into data ", data.ToString(),
                                                   " along the axes other than ", axis));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> values, ToInt64s(indices));
  Places places;
  places.shape = shape;
  places.offsets.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t index, NormalIndex(values[i], data.dim(axis)));
    int64_t offset = 0;
    int64_t stride = 1;
    int64_t rest = static_cast<int64_t>(i);
    for (int each = data.rank() - 1; each >= 0; --each) {
      const int64_t position = rest % shape.dim(each);
      rest /= shape.dim(each);
      offset += (each == axis ? index : position) * stride;
      stride *= data.dim(each);
    }
    places.offsets.push_back(offset);
  }
  return places;
}

// Returns the product of the extents of the axes [begin, end).
int64_t Extents(const Shape& shape, int begin, int end) {
  int64_t count = 1;
  for (int axis = begin; axis < end; ++axis) count *= shape.dim(axis);
  return count;
}

// Returns the places that GatherND and ScatterND use. The first `batch_dims` axes are common to the
// data and the indices. Along their last axis, the indices hold the coordinates of a block of the
// data.
absl::StatusOr<Places> SlicePlaces(const Shape& data, const Tensor& indices, int64_t batch_dims) {
  const Shape& shape = indices.shape();
  const int last = shape.rank() - 1;
  bool fits = last >= 0 && batch_dims >= 0 && batch_dims <= std::min(last, data.rank());
  for (int axis = 0; fits && axis < batch_dims; ++axis) fits = shape.dim(axis) == data.dim(axis);
  const int64_t depth = last >= 0 ? shape.dim(last) : 0;
  if (!fits || batch_dims + depth > data.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("indices ", indices.TypeString(),
                                                   " do not fit data ", data.ToString(), " with ",
                                                   batch_dims, " batch axes"));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> values, ToInt64s(indices));
  const int batch = static_cast<int>(batch_dims);
  const int inner = batch + static_cast<int>(depth);
  Places places;
  places.slice = Extents(data, inner, data.rank());
  absl::InlinedVector<int64_t, 4> dims(shape.dims().begin(), shape.dims().end() - 1);
  dims.insert(dims.end(), data.dims().begin() + inner, data.dims().end());
  ASSIGN_OR_RETURN(places.shape, CheckedShape(dims));
  const int64_t batches = Extents(data, 0, batch);
  const int64_t tuples = Extents(shape, batch, last);
  const int64_t example = Extents(data, batch, data.rank());
  for (int64_t each = 0; each < batches * tuples; ++each) {
    int64_t offset = 0;
    for (int axis = batch; axis < inner; ++axis) {
      const size_t at = static_cast<size_t>(each * depth + axis - batch);
      ASSIGN_OR_RETURN(const int64_t index, NormalIndex(values[at], data.dim(axis)));
      offset = offset * data.dim(axis) + index;
    }
    places.offsets.push_back(each / tuples * example + offset * places.slice);
  }
  return places;
}

void Gather(KernelContext& context, const Tensor& data, const Places& places) {
  const size_t size = ElementSize(data.dtype());
  const size_t bytes = static_cast<size_t>(places.slice) * size;
  std::byte* out = context.Output(0, data.dtype(), places.shape).mutable_raw();
  if (bytes == 0) return;
  for (const int64_t offset : places.offsets) {
    std::memcpy(out, data.raw() + static_cast<size_t>(offset) * size, bytes);
    out += bytes;
  }
}

enum class ScatterReduction { kNone, kAdd, kMul };

// Writes output 0: a copy of the data to which the updates are added, or which is multiplied by
// them, in the order of the updates. The arithmetic is in double, and in 64 bits for integers.
template <typename T>
void Reduce(KernelContext& context, const Places& places, ScatterReduction reduction) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  const Tensor& data = context.input(0);
  std::vector<Wide> results(data.span<T>().begin(), data.span<T>().end());
  const T* update = context.input(2).data<T>();
  for (const int64_t offset : places.offsets) {
    for (int64_t i = 0; i < places.slice; ++i) {
      Wide& result = results[static_cast<size_t>(offset + i)];
      const Wide value = static_cast<Wide>(*update++);
      result = reduction == ScatterReduction::kAdd ? result + value : result * value;
    }
  }
  T* out = context.Output(0, data.dtype(), data.shape()).template mutable_data<T>();
  for (const Wide result : results) *out++ = static_cast<T>(result);
}

absl::Status Scatter(KernelContext& context, const Places& places, ScatterReduction reduction) {
  const Tensor& data = context.input(0);
  const Tensor& updates = context.input(2);
  RETURN_IF_ERROR(RequireSameType(data, updates));
  if (updates.shape() != places.shape) {
    return absl::InvalidArgumentError(absl::StrCat("updates ", updates.TypeString(),
                                                   " where the indices name places of shape ",
                                                   places.shape.ToString()));
  }
  if (reduction != ScatterReduction::kNone) {
    return DispatchTypes(SumTypes{}, data, [&](auto tag) {
      Reduce<typename decltype(tag)::Type>(context, places, reduction);
      return absl::OkStatus();
    });
  }
  const size_t size = ElementSize(data.dtype());
  const size_t bytes = static_cast<size_t>(places.slice) * size;
  Tensor& output = context.Output(0, data.dtype(), data.shape());
  if (data.num_bytes() > 0) std::memcpy(output.mutable_raw(), data.raw(), data.num_bytes());
  const std::byte* update = updates.raw();
  for (size_t i = 0; i < places.offsets.size() && bytes > 0; ++i, update += bytes) {
    std::memcpy(output.mutable_raw() + static_cast<size_t>(places.offsets[i]) * size, update,
                bytes);
  }
  return absl::OkStatus();
}

struct ElementsParameters {
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::kNone;
};

ScatterReduction ParseReduction(AttributeReader& reader) {
  const std::string reduction = reader.String("reduction", "none");
  if (reduction == "add") return ScatterReduction::kAdd;
  if (reduction == "mul") return ScatterReduction::kMul;
  if (reduction != "none") reader.Fail("unknown attribute 'reduction'; use none, add or mul");
  return ScatterReduction::kNone;
}

ElementsParameters ParseGatherElements(AttributeReader& reader) { return {reader.Int("axis", 0)}; }

ElementsParameters ParseScatterElements(AttributeReader& reader) {
  return {reader.Int("axis", 0), ParseReduction(reader)};
}

absl::Status RunGatherElements(KernelContext& context, const ElementsParameters& parameters) {
  const Tensor& data = context.input(0);
  ASSIGN_OR_RETURN(const Places places,
                   ElementPlaces(data.shape(), context.input(1), parameters.axis));
  Gather(context, data, places);
  return absl::OkStatus();
}

absl::Status RunScatterElements(KernelContext& context, const ElementsParameters& parameters) {
  ASSIGN_OR_RETURN(const Places places,
                   ElementPlaces(context.input(0).shape(), context.input(1), parameters.axis));
  return Scatter(context, places, parameters.reduction);
}

struct GatherNdParameters {
  int64_t batch_dims = 0;
};

GatherNdParameters ParseGatherNd(AttributeReader& reader) { return {reader.Int("batch_dims", 0)}; }

absl::Status RunGatherNd(KernelContext& context, const GatherNdParameters& parameters) {
  const Tensor& data = context.input(0);
  ASSIGN_OR_RETURN(const Places places,
                   SlicePlaces(data.shape(), context.input(1), parameters.batch_dims));
  Gather(context, data, places);
  return absl::OkStatus();
}

absl::Status RunGatherNdGrad(KernelContext& context, const GatherNdParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Shape data = context.input(1).shape();
  ASSIGN_OR_RETURN(const Places places, SlicePlaces(data, context.input(2), parameters.batch_dims));
  if (dy.shape() != places.shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradient ", dy.TypeString(), " where GatherND gave ", places.shape.ToString()));
  }
  return DispatchFloats(dy, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::vector<double> sums(static_cast<size_t>(data.num_elements()), 0);
    const T* from = dy.data<T>();
    for (const int64_t offset : places.offsets) {
      for (int64_t i = 0; i < places.slice; ++i) {
        sums[static_cast<size_t>(offset + i)] += static_cast<double>(*from++);
      }
    }
    T* out = context.Output(0, dy.dtype(), data).template mutable_data<T>();
    for (const double sum : sums) *out++ = static_cast<T>(sum);
    return absl::OkStatus();
  });
}

struct ScatterNdParameters {
  ScatterReduction reduction = ScatterReduction::kNone;
};

ScatterNdParameters ParseScatterNd(AttributeReader& reader) { return {ParseReduction(reader)}; }

absl::Status RunScatterNd(KernelContext& context, const ScatterNdParameters& parameters) {
  ASSIGN_OR_RETURN(const Places places, SlicePlaces(context.input(0).shape(), context.input(1), 0));
  return Scatter(context, places, parameters.reduction);
}

}  // namespace

void RegisterReferenceScatter(KernelRegistry& registry) {
  registry.Add("", "GatherElements",
               BoundKernel<ElementsParameters>({2, 2, {kAnyType, kIndices}}, ParseGatherElements,
                                               RunGatherElements));
  registry.Add("", "ScatterElements",
               BoundKernel<ElementsParameters>({3, 3, {kAnyType, kIndices, kAnyType}},
                                               ParseScatterElements, RunScatterElements));
  registry.Add(
      "", "GatherND",
      BoundKernel<GatherNdParameters>({2, 2, {kAnyType, kIndices}}, ParseGatherNd, RunGatherNd));
  registry.Add("cohort", "GatherNDGrad",
               BoundKernel<GatherNdParameters>({3, 3, {kFloats, kAnyType, kIndices}}, ParseGatherNd,
                                               RunGatherNdGrad));
  registry.Add("", "ScatterND",
               BoundKernel<ScatterNdParameters>({3, 3, {kAnyType, kIndices, kAnyType}},
                                                ParseScatterNd, RunScatterNd));
}

}  // namespace cohort
