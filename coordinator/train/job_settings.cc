#include "coordinator/train/job_settings.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/crc32c.h"
#include "common/cluster/json_text.h"

namespace cohort {

namespace {

constexpr size_t kNamedMax = 8;

// Returns the value at `path` as text for a message; "absent" if there is no value.
std::string ValueAt(const nlohmann::json& settings, const nlohmann::json::json_pointer& path) {
  return settings.contains(path) ? JsonExcerpt(settings.at(path)) : "absent";
}

// Returns the key in the job file for a place in the job's SettingsText: "fit.batch_size" for
// "/fit/batch_size". The SettingsText gives every Sequential model an InputLayer and an object as
// config, which the job file may lack.
std::string KeyOf(const std::string& place, const ModelFileForm& form) {
  std::vector<std::string> parts = absl::StrSplit(absl::StripPrefix(place, "/"), '/');
  int64_t layer = 0;
  const bool is_layer = parts.size() > 3 && parts[0] == "model" && parts[1] == "config" &&
                        parts[2] == "layers" && absl::SimpleAtoi(parts[3], &layer);
  if (is_layer && form.implies_input) {
    // The job file gives the shape of an implied InputLayer in the layer that it lists first.
    if (layer == 0) {
      parts = {"model", "config", "layers", "0", "config", "input_shape"};
    } else {
      parts[3] = absl::StrCat(layer - 1);
    }
  }
  if (is_layer && form.config_is_list) parts.erase(parts.begin() + 2);
  // The model that Keras wrote is not under "model" itself.
  if (parts[0] == "model") parts[0] = form.path;
  return absl::StrJoin(parts, ".");
}

}  // namespace

std::string SettingsText(const JobSpec& job) {
  // Settings that may differ between two processes of the same job get fixed values, so that they
  // do not change the fingerprint.
  JobSpec same = job;
  same.fit.epochs = 1;
  same.fit.closures_in_flight = 1;
  same.checkpoint = CheckpointSpec();
  same.recovery = RecoverySpec();
  same.export_to = ExportSpec();
  same.cluster = ClusterOptionsSpec();
  return JobToJson(same);
}

uint32_t SettingsOf(const JobSpec& job) { return Crc32c(SettingsText(job)); }

std::string SettingsDifference(const std::string& before, const JobSettings& now) {
  const absl::StatusOr<nlohmann::json> old_settings = ParseJsonText(before);
  const absl::StatusOr<nlohmann::json> new_settings = ParseJsonText(now.text);
  if (!old_settings.ok() || !new_settings.ok()) return "";
  std::vector<std::string> named;
  // A JSON patch lists the places at which two settings differ, such as /fit/batch_size.
  for (const nlohmann::json& change : nlohmann::json::diff(*old_settings, *new_settings)) {
    if (named.size() == kNamedMax) {
      named.emplace_back("more");
      break;
    }
    const std::string place = change["path"];
    const nlohmann::json::json_pointer path(place);
    named.push_back(absl::StrCat(KeyOf(place, now.form), " was ", ValueAt(*old_settings, path),
                                 " and is ", ValueAt(*new_settings, path)));
  }
  return absl::StrJoin(named, ", ");
}

}  // namespace cohort
