#include "coordinator/model/layer_shapes.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/model/image_layer_shapes.h"
#include "coordinator/model/initializer.h"

namespace cohort {
namespace {

constexpr int64_t kTableElementsMax = int64_t{1} << 40;

// Finds the output shape of one layer. Lives for one call. Thread-compatible.
class ShapeFinder {
 public:
  explicit ShapeFinder(absl::Span<const Shape> inputs) : inputs_(inputs) {}

  absl::StatusOr<Shape> operator()(const InputLayerSpec&) const { return inputs_[0]; }

  absl::StatusOr<Shape> operator()(const DenseSpec& layer) const {
    const Shape& shape = inputs_[0];
    if (shape.rank() < 1) {
      return WrongInput(layer.name, shape, "Dense needs at least one dimension beside the batch");
    }
    const int64_t inputs = shape.dim(shape.rank() - 1);
    // Neither the kernel nor an example of the output may exceed the limit.
    if (inputs > kElementsMax / layer.units ||
        shape.num_elements() / inputs > kElementsMax / layer.units) {
      return WrongInput(layer.name, shape,
                        absl::StrCat(layer.units, " units make more than 2^31 elements"));
    }
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.back() = layer.units;
    return Shape(dims);
  }

  absl::StatusOr<Shape> operator()(const DropoutSpec&) const { return inputs_[0]; }

  absl::StatusOr<Shape> operator()(const FlattenSpec&) const {
    return Shape({inputs_[0].num_elements()});  // an example of one number becomes [1], as in Keras
  }

  absl::StatusOr<Shape> operator()(const ActivationSpec& layer) const {
    // Softmax needs an axis to sum over.
    if (layer.activation == Activation::kSoftmax && inputs_[0].rank() < 1) {
      return WrongInput(layer.name, inputs_[0],
                        "softmax needs at least one dimension beside the batch");
    }
    return inputs_[0];
  }

  absl::StatusOr<Shape> operator()(const ConcatenateSpec& layer) const {
    const int rank = inputs_[0].rank();
    // Keras's axis numbers count the batch as axis 0, but the shapes here have no batch.
    const int64_t axis = layer.axis < 0 ? layer.axis + rank : layer.axis - 1;
    if (axis < 0 || axis >= rank) {
      return WrongInput(layer.name, inputs_[0],
                        absl::StrCat("its axis ", layer.axis, " is not one of their dimensions"));
    }
    std::vector<int64_t> joined(inputs_[0].dims().begin(), inputs_[0].dims().end());
    for (const Shape& shape : inputs_.subspan(1)) {
      // The inputs of Concatenate must be equal in all dimensions but the joined one.
      bool fits = shape.rank() == rank;
      for (int i = 0; fits && i < rank; ++i) fits = i == axis || shape.dim(i) == joined[i];
      if (!fits) {
        return WrongInput(layer.name, shape,
                          absl::StrCat("it joins dimension ", axis + 1, " and the first is ",
                                       inputs_[0].ToString()));
      }
      joined[static_cast<size_t>(axis)] += shape.dim(static_cast<int>(axis));
    }
    const Shape shape(joined);
    if (shape.num_elements() > kElementsMax) {
      return WrongInput(layer.name, shape, "that is more than 2^31 elements");
    }
    return shape;
  }

  absl::StatusOr<Shape> operator()(const EmbeddingSpec& layer) const {
    RETURN_IF_ERROR(CheckTable(layer));
    std::vector<int64_t> dims(inputs_[0].dims().begin(), inputs_[0].dims().end());
    dims.push_back(layer.output_dim);
    return Shape(dims);
  }

  absl::StatusOr<Shape> operator()(const EmbeddingBagSpec& layer) const {
    RETURN_IF_ERROR(CheckTable(layer));
    if (inputs_[0].rank() != 1) {
      return WrongInput(layer.name, inputs_[0],
                        "EmbeddingBag takes one list of ids per example, filled up with -1");
    }
    return Shape({layer.output_dim});
  }

  template <typename ImageSpec>
  absl::StatusOr<Shape> operator()(const ImageSpec& layer) const {
    return OutputShape(layer, inputs_[0]);
  }

 private:
  // Checks the number of elements of an embedding's table and of one example of the output.
  template <typename Spec>
  absl::Status CheckTable(const Spec& layer) const {
    const bool fits = layer.input_dim <= kTableElementsMax / layer.output_dim &&
                      inputs_[0].num_elements() <= kElementsMax / layer.output_dim;
    if (fits) return absl::OkStatus();
    return WrongInput(layer.name, inputs_[0],
                      absl::StrCat(layer.input_dim, " rows of ", layer.output_dim,
                                   " make more than 2^40 elements, or an example more than 2^31"));
  }

  const absl::Span<const Shape> inputs_;
};

// Returns the settings of a dynamic table in the form that the parameter servers read.
proto::DynamicTable MakeDynamicTable(const DynamicTableSpec& spec) {
  proto::DynamicTable table;
  table.set_row_dtype(static_cast<int32_t>(spec.dtype));
  table.set_admit_after(static_cast<uint32_t>(spec.admit_after));
  table.set_admit_probability(spec.admit_probability);
  if (spec.ttl_seconds) {
    // The time is rounded up, so that a short time does not become 0, which means that rows never
    // expire.
    table.set_ttl_ms(static_cast<int64_t>(std::ceil(*spec.ttl_seconds * 1000)));
  }
  // The value 0 stands for a table without a memory limit.
  table.set_max_bytes(static_cast<uint64_t>(spec.max_bytes_per_ps.value_or(0)));
  table.set_evict_least_frequent(spec.evict == "lfu");
  return table;
}

// Returns the variable of an embedding's table.
template <typename Spec>
VariableSpec Table(const Spec& layer, uint64_t seed) {
  VariableSpec table = MakeVariable(TableOf(layer), Shape({layer.input_dim, layer.output_dim}),
                                    layer.embeddings_initializer, seed);
  if (layer.dynamic) table.dynamic = MakeDynamicTable(*layer.dynamic);
  return table;
}

}  // namespace

absl::StatusOr<Shape> LayerOutputShape(const LayerSpec& layer, absl::Span<const Shape> inputs) {
  return std::visit(ShapeFinder(inputs), layer);
}

std::vector<VariableSpec> LayerVariables(const LayerSpec& layer, const Shape& input,
                                         uint64_t seed) {
  std::vector<VariableSpec> variables;
  if (const auto* dense = std::get_if<DenseSpec>(&layer)) {
    const Shape kernel({input.dim(input.rank() - 1), dense->units});
    variables.push_back(
        MakeVariable(dense->name + "/kernel", kernel, dense->kernel_initializer, seed));
    if (dense->use_bias) {
      variables.push_back(MakeVariable(dense->name + "/bias", Shape({dense->units}),
                                       dense->bias_initializer, seed));
    }
  } else if (const auto* embedding = std::get_if<EmbeddingSpec>(&layer)) {
    variables.push_back(Table(*embedding, seed));
  } else if (const auto* bag = std::get_if<EmbeddingBagSpec>(&layer)) {
    variables.push_back(Table(*bag, seed));
  } else if (const auto* conv = std::get_if<Conv2DSpec>(&layer)) {
    variables = Variables(*conv, input, seed);
  } else if (const auto* norm = std::get_if<BatchNormalizationSpec>(&layer)) {
    variables = Variables(*norm, input, seed);
  }
  // Layers of all other kinds have no variables.
  return variables;
}

std::string TableOf(const LayerSpec& layer) {
  const bool is_table = std::holds_alternative<EmbeddingSpec>(layer) ||
                        std::holds_alternative<EmbeddingBagSpec>(layer);
  return is_table ? LayerName(layer) + "/embeddings" : "";
}

}  // namespace cohort
