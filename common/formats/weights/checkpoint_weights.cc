// The values of TensorFlow's V2 checkpoints.

#include <array>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"
#include "common/checkpoint/object_graph.h"
#include "common/checkpoint/tf1_slots.h"
#include "common/formats/stored_elements.h"
#include "common/formats/weights/weight_sources.h"

namespace cohort {

namespace {

constexpr absl::string_view kValueSuffix = "/.ATTRIBUTES/VARIABLE_VALUE";

// The tensors of one checkpoint. Thread-safe.
class CheckpointSource final : public WeightSource {
 public:
  CheckpointSource(std::unique_ptr<BundleReader> reader, std::vector<std::string> names)
      : reader_(std::move(reader)), names_(std::move(names)) {}
  absl::StatusOr<Tensor> Read(size_t index) const override { return reader_->Read(names_[index]); }

 private:
  const std::unique_ptr<BundleReader> reader_;
  const std::vector<std::string> names_;  // in the order of the entries
};

// Returns true if the tensor is a slot of an optimizer of TensorFlow 1, or one of its counters.
bool IsTf1Slot(absl::string_view name) {
  constexpr std::array<const char*, 5> kOps = {"sgd", "adam", "adagrad", "ftrl", "adadelta"};
  for (const char* const op : kOps) {
    if (ParseTf1SlotName({op}, name).has_value()) return true;
  }
  return ParseTf1SlotName({"rmsprop", /*centered=*/true}, name).has_value() ||
         absl::StartsWith(name, "beta1_power") || absl::StartsWith(name, "beta2_power");
}

// Returns the role of a tensor that no object graph describes.
WeightRole RoleByName(absl::string_view name, const BundleTensor& tensor) {
  if (absl::StrContains(name, kSlotInfix) || IsTf1Slot(name)) return WeightRole::kOptimizer;
  if (absl::StrContains(name, kTableRowsInfix)) return WeightRole::kOther;
  // Counters: global_step, save_counter and those of a job.
  const bool counts = tensor.dtype == DType::kInt64 && tensor.shape.rank() == 0;
  return counts ? WeightRole::kOther : WeightRole::kWeight;
}

// Returns the role of a value by its place in the object graph. Keras 3 lists a model's trainable
// variables below its optimizer too, and the shortest path may go there. What Keras 3 exports has
// every variable twice: below "variables", and again below "_all_variables".
WeightRole RoleByPlace(const TrackedValue& value) {
  const absl::string_view path = value.path;
  if (path == "save_counter" || absl::StartsWith(path, "keras_api/") ||
      absl::StartsWith(path, "_all_variables/") || absl::StrContains(path, "seed_generator") ||
      absl::StrContains(value.full_name, "seed_generator")) {
    return WeightRole::kOther;
  }
  if (absl::StrContains(value.key, kSlotInfix)) return WeightRole::kOptimizer;
  const bool of_optimizer =
      absl::StartsWith(path, "optimizer/") || absl::StrContains(path, "/optimizer/");
  if (!of_optimizer || absl::StrContains(path, "optimizer/_trainable_variables/")) {
    return WeightRole::kWeight;
  }
  return WeightRole::kOptimizer;
}

// Returns the object graph's values by their keys; none without a graph.
absl::StatusOr<std::map<std::string, TrackedValue>> TrackedIn(const BundleReader& reader,
                                                              const std::string& prefix) {
  std::map<std::string, TrackedValue> by_key;
  if (reader.left_out().count(kObjectGraphKey) == 0) return by_key;
  ASSIGN_OR_RETURN(const std::vector<std::string> strings, reader.ReadStrings(kObjectGraphKey));
  if (strings.size() != 1) return MalformedFile(prefix, "not one object graph");
  absl::StatusOr<ObjectGraph> graph = ParseObjectGraph(strings[0]);
  if (!graph.ok()) return MalformedFile(prefix, graph.status().message());
  for (TrackedValue& value : graph->values) {
    const std::string key = value.key;
    by_key.emplace(key, std::move(value));
  }
  return by_key;
}

}  // namespace

absl::StatusOr<WeightFile> WeightsOfCheckpoint(FileSystem& files, const std::string& prefix) {
  ASSIGN_OR_RETURN(std::unique_ptr<BundleReader> reader, BundleReader::Open(files, prefix));
  ASSIGN_OR_RETURN(const auto tracked, TrackedIn(*reader, prefix));
  WeightFile weights;
  weights.kind = WeightFileKind::kTensorFlowCheckpoint;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : reader->tensors()) {
    // The plain name of a value that the object graph has under another key.
    if (tracked.contains(absl::StrCat(name, kValueSuffix))) continue;
    WeightEntry entry;
    entry.name = name;
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    const auto found = tracked.find(name);
    if (found != tracked.end()) {
      entry.variable = WithoutOutput(found->second.full_name);
      entry.role = RoleByPlace(found->second);
    } else {
      entry.variable = std::string(absl::StripSuffix(name, kValueSuffix));
      entry.role = RoleByName(name, tensor);
    }
    names.push_back(name);
    weights.entries.push_back(std::move(entry));
  }
  for (const auto& [name, type] : reader->left_out()) {
    if (name == kObjectGraphKey) continue;
    weights.left_out.push_back(absl::StrCat(name, " (", TensorFlowTypeName(type), ")"));
  }
  weights.source = std::make_unique<CheckpointSource>(std::move(reader), std::move(names));
  return weights;
}

}  // namespace cohort
