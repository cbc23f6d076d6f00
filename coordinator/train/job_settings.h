#pragma once

#include <cstdint>
#include <string>

#include "coordinator/job/job_spec.h"

namespace cohort {

// Returns a fingerprint of what a job trains and how. Two coordinators with the same job name and
// the same fingerprint run the same job, so that one can continue what the other did. The length of
// the training, paths, and the options for watching the cluster do not count.
uint32_t SettingsOf(const JobSpec& job);

// Returns what SettingsOf is a fingerprint of, as JSON.
std::string SettingsText(const JobSpec& job);

// The SettingsText of a job, and how its file writes the model.
struct JobSettings {
  std::string text;
  ModelFileForm form = {};
};

// Returns which settings differ from those that a SettingsText tells, as "fit.batch_size was 32 and
// is 64", at most eight of them; empty if a text is not JSON. The keys are those of the file of
// `now`.
std::string SettingsDifference(const std::string& before, const JobSettings& now);

}  // namespace cohort
