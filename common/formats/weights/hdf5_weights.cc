// The values of the HDF5 files that Keras writes.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/stored_elements.h"
#include "common/formats/weights/weight_sources.h"

namespace cohort {

namespace {

constexpr char kLayerNames[] = "layer_names";
constexpr char kWeightNames[] = "weight_names";
constexpr char kLegacyWeights[] = "model_weights";
constexpr char kLegacyOptimizer[] = "optimizer_weights";
// The group of the layers, in Keras 2.15 and 3 and in 2.13 and 2.14.
constexpr std::array<const char*, 2> kLayerGroups = {"layers", "_layer_checkpoint_dependencies"};

// The datasets of one file. Thread-safe.
class Hdf5WeightSource final : public WeightSource {
 public:
  Hdf5WeightSource(std::unique_ptr<Hdf5File> file, std::vector<std::string> paths)
      : file_(std::move(file)), paths_(std::move(paths)) {}
  absl::StatusOr<Tensor> Read(size_t index) const override {
    return file_->Read(*file_->Find(paths_[index]));
  }

 private:
  const std::unique_ptr<Hdf5File> file_;
  const std::vector<std::string> paths_;  // in the order of the entries
};

WeightEntry EntryOf(const Hdf5Object& object) {
  WeightEntry entry;
  entry.name = object.path;
  if (object.dataset.type.kind == Hdf5Type::Kind::kNumber) {
    entry.dtype = DTypeOfStored(object.dataset.type.stored);
  }
  entry.shape = object.dataset.shape;
  return entry;
}

// Returns an attribute's text, or "" where there is none.
std::string TextOr(const Hdf5Object& object, const std::string& name) {
  const absl::StatusOr<std::string> text = Hdf5String(object, name);
  return text.ok() ? *text : "";
}

absl::StatusOr<const Hdf5Object*> DatasetAt(const Hdf5File& file, const std::string& path) {
  const Hdf5Object* const object = file.Find(path);
  if (object != nullptr && object->is_dataset) return object;
  return MalformedFile(file.path(), absl::StrCat("'", Excerpt(path), "' is named, and not there"));
}

// Adds the datasets that the attribute weight_names of `group` lists.
absl::Status AddListed(const Hdf5File& file, const Hdf5Object& group, const WeightEntry& common,
                       std::vector<WeightEntry>& entries) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Hdf5Strings(group, kWeightNames));
  int position = 0;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const Hdf5Object* const dataset,
                     DatasetAt(file, absl::StrCat(group.path, "/", name)));
    WeightEntry entry = EntryOf(*dataset);
    entry.layer = common.layer;
    entry.group = group.path;
    entry.role = common.role;
    entry.variable = WithoutOutput(name);
    entry.position = position++;
    entries.push_back(std::move(entry));
  }
  return absl::OkStatus();
}

// Adds the values of a legacy .h5 file, which lists the names of layers and weights, in the order
// of the layers.
absl::Status AddLegacy(const Hdf5File& file, const Hdf5Object& top,
                       std::vector<WeightEntry>& entries) {
  ASSIGN_OR_RETURN(const std::vector<std::string> layers, Hdf5Strings(top, kLayerNames));
  for (const std::string& layer : layers) {
    const std::string path = top.path.empty() ? layer : absl::StrCat(top.path, "/", layer);
    const Hdf5Object* const group = file.Find(path);
    if (group == nullptr) {
      return MalformedFile(file.path(),
                           absl::StrCat("layer '", Excerpt(layer), "' is named, and not there"));
    }
    WeightEntry common;
    common.layer = layer;
    RETURN_IF_ERROR(AddListed(file, *group, common, entries));
  }
  const Hdf5Object* const optimizer = file.Find(kLegacyOptimizer);
  if (optimizer == nullptr || !Hdf5Strings(*optimizer, kWeightNames).ok()) return absl::OkStatus();
  WeightEntry common;
  common.role = WeightRole::kOptimizer;
  return AddListed(file, *optimizer, common, entries);
}

// Returns the place of a part of a layer among the parts, in the order of the layer's weights.
// Parts that are not listed come last, by name.
size_t RankOfPart(absl::string_view part) {
  constexpr std::array<absl::string_view, 12> kParts = {
      "cell",         "layer",       "forward_layer", "backward_layer",
      "_query_dense", "query_dense", "_key_dense",    "key_dense",
      "_value_dense", "value_dense", "_output_dense", "output_dense"};
  const auto found = std::find(kParts.begin(), kParts.end(), part);
  return static_cast<size_t>(found - kParts.begin());
}

// The place of a dataset ".../vars/N" in a .weights.h5 file.
struct Place {
  std::vector<std::string> group;  // "layers", "dense_1"; for a nested model, the groups of both
  std::vector<std::string> parts;  // inside the layer: "forward_layer", "cell"
  int number = 0;

  // Returns a key that sorts the weights of a layer as the layer has them.
  std::vector<std::tuple<size_t, std::string>> Key() const {
    std::vector<std::tuple<size_t, std::string>> key;
    for (const std::string& part : parts) key.emplace_back(RankOfPart(part), part);
    return key;
  }
};

bool IsLayerGroup(absl::string_view part) {
  return std::find(kLayerGroups.begin(), kLayerGroups.end(), part) != kLayerGroups.end();
}

// Returns the place of a dataset, or nothing if its path is not of that form.
std::optional<Place> PlaceOf(const std::string& path) {
  std::vector<std::string> parts = absl::StrSplit(path, '/');
  Place place;
  if (parts.size() < 2 || parts[parts.size() - 2] != "vars" ||
      !absl::SimpleAtoi(parts.back(), &place.number)) {
    return std::nullopt;
  }
  parts.resize(parts.size() - 2);
  // The layer is what follows the last group of layers.
  size_t end = 0;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (IsLayerGroup(parts[i])) end = i + 2;
  }
  if (end == 0 && !parts.empty()) end = 1;
  const auto middle = parts.begin() + static_cast<std::ptrdiff_t>(end);
  place.group.assign(parts.begin(), middle);
  place.parts.assign(middle, parts.end());
  return place;
}

WeightRole RoleOf(const Place& place) {
  if (!place.group.empty() && place.group[0] == "optimizer") return WeightRole::kOptimizer;
  const bool is_seed = std::any_of(place.parts.begin(), place.parts.end(), [](const auto& part) {
    return absl::StrContains(part, "seed_generator");
  });
  return is_seed || place.group.empty() || !IsLayerGroup(place.group[0]) ? WeightRole::kOther
                                                                         : WeightRole::kWeight;
}

// Adds the values of a .weights.h5 file: they have numbers in place of names.
absl::Status AddNumbered(const Hdf5File& file, std::vector<WeightEntry>& entries) {
  std::vector<std::pair<Place, const Hdf5Object*>> found;
  for (const Hdf5Object& object : file.objects()) {
    if (!object.is_dataset) continue;
    std::optional<Place> place = PlaceOf(object.path);
    if (place.has_value()) found.emplace_back(*std::move(place), &object);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::make_tuple(a.first.group, a.first.Key(), a.first.number) <
           std::make_tuple(b.first.group, b.first.Key(), b.first.number);
  });
  std::map<std::string, int> positions;
  for (const auto& [place, object] : found) {
    WeightEntry entry = EntryOf(*object);
    entry.group = absl::StrJoin(place.group, "/");
    entry.role = RoleOf(place);
    if (entry.role != WeightRole::kOther) entry.position = positions[entry.group]++;
    // Keras 3.6 and later write the layer's name beside its variables.
    const Hdf5Object* const vars = file.Find(absl::StrCat(entry.group, "/vars"));
    if (vars != nullptr && entry.role == WeightRole::kWeight) entry.layer = TextOr(*vars, "name");
    entries.push_back(std::move(entry));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WeightFile> WeightsOfHdf5(std::unique_ptr<Hdf5File> file) {
  WeightFile weights;
  const Hdf5Object* const model = file->Find(kLegacyWeights);
  const Hdf5Object& top = model == nullptr ? file->root() : *model;
  const bool has_layers =
      std::any_of(kLayerGroups.begin(), kLayerGroups.end(),
                  [&](const char* name) { return file->Find(name) != nullptr; });
  weights.texts.keras_version = TextOr(file->root(), "keras_version");
  if (weights.texts.keras_version.empty()) {
    weights.texts.keras_version = TextOr(top, "keras_version");
  }
  weights.texts.config = TextOr(file->root(), "model_config");
  weights.texts.training_config = TextOr(file->root(), "training_config");
  if (Hdf5Strings(top, kLayerNames).ok()) {
    weights.kind = WeightFileKind::kLegacyHdf5;
    RETURN_IF_ERROR(AddLegacy(*file, top, weights.entries));
  } else if (has_layers) {
    weights.kind = WeightFileKind::kKerasWeights;
    RETURN_IF_ERROR(AddNumbered(*file, weights.entries));
  } else {
    return absl::UnimplementedError(
        absl::StrCat(file->path(),
                     ": an HDF5 file without the weights of a Keras model; save it with "
                     "model.save or model.save_weights"));
  }
  std::vector<std::string> paths;
  for (const WeightEntry& entry : weights.entries) {
    paths.push_back(entry.name);
    if (entry.dtype != DType::kUndefined) continue;
    weights.left_out.push_back(
        absl::StrCat(entry.name, " (", file->Find(entry.name)->dataset.type.name, ")"));
  }
  weights.source = std::make_unique<Hdf5WeightSource>(std::move(file), std::move(paths));
  return weights;
}

}  // namespace cohort
