#include "coordinator/train/job_settings.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/crc32c.h"
#include "common/cluster/json_text.h"

namespace cohort {

namespace {

constexpr size_t kNamedMax = 8;

// Returns the value at `path` for a message; "absent" if there is none.
std::string ValueAt(const nlohmann::json& settings, const nlohmann::json::json_pointer& path) {
  return settings.contains(path) ? JsonExcerpt(settings.at(path)) : "absent";
}

}  // namespace

std::string SettingsText(const JobSpec& job) {
  // Settings that may differ between two processes of the same job get fixed values, so that they
  // do not count.
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

std::string SettingsDifference(const std::string& before, const std::string& now) {
  const absl::StatusOr<nlohmann::json> old_settings = ParseJsonText(before);
  const absl::StatusOr<nlohmann::json> new_settings = ParseJsonText(now);
  if (!old_settings.ok() || !new_settings.ok()) return "";
  std::vector<std::string> named;
  // A JSON patch lists the places that differ, such as /fit/batch_size.
  for (const nlohmann::json& change : nlohmann::json::diff(*old_settings, *new_settings)) {
    if (named.size() == kNamedMax) {
      named.emplace_back("more");
      break;
    }
    const std::string place = change["path"];
    const nlohmann::json::json_pointer path(place);
    named.push_back(absl::StrCat(absl::StrReplaceAll(absl::StripPrefix(place, "/"), {{"/", "."}}),
                                 " was ", ValueAt(*old_settings, path), " and is ",
                                 ValueAt(*new_settings, path)));
  }
  return absl::StrJoin(named, ", ");
}

}  // namespace cohort
