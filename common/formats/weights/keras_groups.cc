#include "common/formats/weights/keras_groups.h"

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

bool IsUpper(char c) { return absl::ascii_isupper(static_cast<unsigned char>(c)); }
bool IsLower(char c) { return absl::ascii_islower(static_cast<unsigned char>(c)); }

// Returns `name` with a '_' before each capital letter that a small letter follows, except at the
// start of the name.
std::string WithWordsSplit(absl::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool begins = IsUpper(name[i]) && i + 1 < name.size() && IsLower(name[i + 1]);
    if (begins && i > 0) out.push_back('_');
    out.push_back(name[i]);
  }
  return out;
}

constexpr int kNestedMax = 16;  // upper bound of the depth of nested models

// The path of a nested model, in two forms.
struct Around {
  std::string groups;  // path of its groups in the file: "layers/functional/"
  std::string layers;  // path of its layers by name: "encoder/"
  int depth = 0;
};

// Adds the layers of the model with this config.
void AddLayers(const nlohmann::json& model, const Around& around,
               std::map<std::string, std::string>& names) {
  static const nlohmann::json none;
  const auto at = [](const nlohmann::json& value, const char* key) -> const nlohmann::json& {
    const auto found = value.is_object() ? value.find(key) : value.end();
    return value.is_object() && found != value.end() ? *found : none;
  };
  const nlohmann::json& config = at(model, "config");
  const nlohmann::json& layers = config.is_array() ? config : at(config, "layers");
  if (!layers.is_array() || around.depth > kNestedMax) return;
  std::vector<std::string> classes;
  for (const nlohmann::json& layer : layers) {
    const nlohmann::json& name = at(layer, "class_name");
    classes.push_back(name.is_string() ? name.get<std::string>() : "");
  }
  const std::vector<std::string> groups = KerasLayerGroups(classes);
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string group = absl::StrCat(around.groups, groups[i]);
    const nlohmann::json& name = at(at(layers[i], "config"), "name");
    if (!name.is_string()) continue;
    const std::string path = absl::StrCat(around.layers, name.get<std::string>());
    names[group] = path;
    AddLayers(layers[i], {absl::StrCat(group, "/"), absl::StrCat(path, "/"), around.depth + 1},
              names);
  }
}

}  // namespace

std::string KerasSnakeCase(absl::string_view class_name) {
  std::string letters;
  for (const char c : class_name) {
    if (c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c))) letters.push_back(c);
  }
  // Keras splits twice: before words, and between a small letter and a capital.
  const std::string words = WithWordsSplit(letters);
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool behind_small = i > 0 && IsLower(words[i - 1]);
    if (IsUpper(words[i]) && behind_small) out.push_back('_');
    out.push_back(absl::ascii_tolower(static_cast<unsigned char>(words[i])));
  }
  return out;
}

std::vector<std::string> KerasLayerGroups(absl::Span<const std::string> classes) {
  std::map<std::string, int> counts;
  std::vector<std::string> groups;
  for (const std::string& class_name : classes) {
    const std::string name = KerasSnakeCase(class_name);
    const int count = counts[name]++;
    groups.push_back(count == 0 ? absl::StrCat("layers/", name)
                                : absl::StrCat("layers/", name, "_", count));
  }
  return groups;
}

std::map<std::string, std::string> KerasLayersByGroup(const std::string& config) {
  std::map<std::string, std::string> names;
  const auto model = nlohmann::json::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!model.is_discarded()) AddLayers(model, Around(), names);
  return names;
}

}  // namespace cohort
