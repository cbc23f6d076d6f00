#include "coordinator/network/nested_model.h"

#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/network/calls.h"
#include "coordinator/network/model_config.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

template <bool kFunctional>
class NestedModel : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ReadModelConfig(reader.config, kFunctional, reader.context(), model_);
    const nlohmann::ordered_json record = ModelConfigToJson(model_);
    for (const auto& item : record.items()) reader.config.RecordAs(item.key(), item.value());
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    return PlanCalls(model_, call.settings, call.inputs, plan);
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    return BuildCalls(model_, call.settings, call.inputs, target);
  }

  const DynamicTableSpec* dynamic_table() const override {
    for (const LayerSpec& layer : model_.layers) {
      if (const DynamicTableSpec* const table = layer.layer->dynamic_table()) return table;
    }
    return nullptr;
  }

 private:
  ModelSpec model_;
};

}  // namespace

const std::vector<LayerClass>& NetworkClasses() {
  static const auto* const kClasses = [] {
    auto* const classes = new std::vector<LayerClass>(LayerClasses());
    classes->push_back(
        {"Sequential", MakeLayer<NestedModel<false>>, MaskRule::kOwn, LayerKind::kModel});
    classes->push_back(
        {"Functional", MakeLayer<NestedModel<true>>, MaskRule::kOwn, LayerKind::kModel});
    return classes;
  }();
  return *kClasses;
}

}  // namespace cohort
