// Tables and the lookup of rows: Keras's Embedding, and EmbeddingBag, which only Cohort has.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/slice_spec.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

constexpr int64_t kRowsMax = int64_t{1} << 40;
constexpr int64_t kDynamicWidthMax = 4096;
constexpr int64_t kTableElementsMax = int64_t{1} << 40;

// Returns whether the initializer needs the number of rows: the Glorot, He and Lecun families scale
// by the number of inputs, which for a table is the number of rows, and Orthogonal and Identity
// fill the matrix as a whole.
bool NeedsInputDim(const KerasInitializerSpec& initializer) {
  const std::string& name = initializer.class_name;
  return name == "VarianceScaling" || name == "Orthogonal" || name == "Identity" ||
         FindScaling(name) != nullptr;
}

// Base of Embedding and EmbeddingBag.
class TableLayer : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    ReadRows(config);
    config.Require("output_dim");
    config.Int("output_dim", {.min = 1, .max = dynamic_ ? kDynamicWidthMax : kDimMax},
               &output_dim_);
    reader.Weight("embeddings", &embeddings_);
    if (dynamic_ && NeedsInputDim(embeddings_.initializer)) {
      config.AddError("embeddings_initializer",
                      absl::StrCat("is ", embeddings_.initializer.class_name,
                                   ", which is scaled by the number of rows, and a dynamic table "
                                   "has none; use RandomUniform, RandomNormal, TruncatedNormal, "
                                   "Zeros, Ones or Constant"));
    }
    reader.OnlyNull({"weights", "lora_rank", "quantization_config"});
    config.Ignore("input_length");
  }

  const DynamicTableSpec* dynamic_table() const override { return dynamic_ ? &*dynamic_ : nullptr; }

 protected:
  static std::string Table(const CallSettings& settings) { return settings.layer + "/embeddings"; }

  // Adds the table and the lookup, and checks the number of elements of the table and of one
  // example of the output.
  absl::Status PlanTable(const PlannedCall& call, bool negative_is_none, LayerPlan& plan) const {
    RETURN_IF_ERROR(plan.AddLookup(
        call, {Table(call.settings), negative_is_none, /*dynamic=*/dynamic_.has_value(),
               /*whole=*/!embeddings_.regularizer.is_none()}));
    if (input_dim_ > kTableElementsMax / output_dim_ ||
        call.shape().num_elements() > kElementsMax / output_dim_) {
      return WrongInput(
          call.settings.layer, call.shape(),
          absl::StrCat(input_dim_, " rows of ", output_dim_,
                       " make more than 2^40 elements, or an example more than 2^31"));
    }
    ASSIGN_OR_RETURN(VariableSpec* const table,
                     plan.Add(call, "embeddings", Shape({input_dim_, output_dim_}), embeddings_));
    if (dynamic_) table->dynamic = MakeDynamicTable(*dynamic_);
    return absl::OkStatus();
  }

  int64_t output_dim() const { return output_dim_; }

 private:
  // Reads the number of rows, `input_dim`, or the key `dynamic` of a table without a fixed number
  // of rows.
  void ReadRows(ObjectReader& config) {
    if (!config.Given("dynamic", dynamic_.has_value())) {
      config.Require("input_dim");
      return config.Int("input_dim", {.min = 1, .max = kRowsMax}, &input_dim_);
    }
    dynamic_.emplace();
    config.Object("dynamic", ReadDynamicTable, &*dynamic_);
    if (config.Find("input_dim") != nullptr) {
      config.AddError("dynamic", "stands beside input_dim; a table has one of the two");
    }
    // Keys are spread over this many buckets, which are the rows that slices share out.
    input_dim_ = kKeyBuckets;
  }

  int64_t input_dim_ = 1;  // number of rows; kKeyBuckets for a dynamic table
  int64_t output_dim_ = 1;
  WeightRules embeddings_{{.class_name = "RandomUniform", .a = -0.05, .b = 0.05}};
  std::optional<DynamicTableSpec> dynamic_;
};

class Embedding : public TableLayer {
 public:
  void Read(LayerReader& reader) override {
    TableLayer::Read(reader);
    const auto* const mask_zero = reader.config.Find("mask_zero");
    if (mask_zero != nullptr && *mask_zero == true) mask_zero_ = true;
    // mask_zero is recorded only if it is true, because job files of earlier versions had no such
    // key.
    if (mask_zero_) reader.config.RecordAs("mask_zero", true);
    if (mask_zero_ && dynamic_table() != nullptr) {
      reader.config.AddError("mask_zero", "is true, and the rows of a dynamic table have no id 0");
    }
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    RETURN_IF_ERROR(PlanTable(call, /*negative_is_none=*/false, plan));
    // The mask is computed from the ids, so the graph needs their column, too.
    if (mask_zero_) plan.UseColumn(call.inputs[0].column);
    std::vector<int64_t> dims(call.shape().dims().begin(), call.shape().dims().end());
    dims.push_back(output_dim());
    return std::vector<TensorType>{{.shape = Shape(dims)}};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const std::string table = Table(call.settings);
    const Nodes nodes(target.graph);
    // Gather replaces each id by its row of the table.
    LayerValue rows{target.graph.Op("Gather", {table, target.ids(call.input().type, table)},
                                    {IntAttribute("axis", 0)})};
    if (mask_zero_) {
      // The ids are float32 here. The cast maps 0 to 0, and every other id to another number.
      const std::string is_zero = nodes.Op("Equal", {call.input().value, nodes.Number(0)});
      rows.mask = nodes.Op("Not", {is_zero});
    }
    return {std::move(rows)};
  }

 private:
  bool mask_zero_ = false;  // true: positions with the id 0 are masked
};

// Combines the rows of an example's ids into one row. A negative id stands for no id, so that
// examples may have different numbers of ids. An example without ids gives zeros.
class EmbeddingBag : public TableLayer {
 public:
  void Read(LayerReader& reader) override {
    TableLayer::Read(reader);
    reader.config.Choice("combiner", {"sum", "mean", "sqrtn"}, &combiner_);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    RETURN_IF_ERROR(PlanTable(call, /*negative_is_none=*/true, plan));
    if (call.shape().rank() != 1) {
      return WrongInput(call.settings.layer, call.shape(),
                        "EmbeddingBag takes one list of ids per example, filled up with -1");
    }
    return std::vector<TensorType>{{.shape = Shape({output_dim()})}};
  }

  // Adds ONNX's own operators, which have no bag: a negative id reads row 0 and multiplies it by 0.
  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const std::string table = Table(call.settings);
    const std::string ids = nodes.Cast(target.ids(call.input().type, table), DType::kInt64);
    const std::string one = target.graph.Constant("one", Tensor::Scalar<int64_t>(1));
    // relu(id + 1) is 0 exactly for negative ids, because ids are whole numbers.
    const std::string mask = IsNotZero(nodes.Op("Relu", {nodes.Add(ids, one)}), nodes);
    const std::string safe = nodes.Op("Relu", {ids});
    const std::string rows = target.graph.Op("Gather", {table, safe}, {IntAttribute("axis", 0)});
    const std::string kept = nodes.Mul(rows, nodes.Reshape(mask, {0, 0, 1}));
    const std::string sum = nodes.ReduceAway("ReduceSum", kept, {1});
    if (combiner_ == "sum") return {{sum}};
    // The combiner "mean" divides the sum by the number of ids, "sqrtn" by the square root of that
    // number.
    const std::string count = nodes.Reduce("ReduceSum", mask, {1});
    // The divisor is 1 for an example without ids, so that the result is 0 and not 0 / 0.
    std::string divisor = nodes.Add(count, nodes.Sub(nodes.Number(1), IsNotZero(count, nodes)));
    if (combiner_ == "sqrtn") divisor = nodes.Op("Sqrt", {divisor});
    return {{nodes.Div(sum, divisor)}};
  }

 private:
  static std::string IsNotZero(const std::string& value, const Nodes& nodes) {
    return nodes.Cast(nodes.Cast(value, DType::kBool), DType::kFloat32);
  }

  std::string combiner_ = "mean";
};

}  // namespace

void AddEmbeddingLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"Embedding", MakeLayer<Embedding>, MaskRule::kOwn, LayerKind::kLookup});
  classes.push_back({"EmbeddingBag", MakeLayer<EmbeddingBag>, MaskRule::kStop, LayerKind::kLookup});
}

}  // namespace cohort
