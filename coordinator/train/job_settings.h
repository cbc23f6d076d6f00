#pragma once

// Decides whether two job files describe the same training, and names the keys in which they
// differ.

#include <cstdint>
#include <string>

#include "coordinator/job/job_spec.h"

namespace cohort {

// Returns a fingerprint of what a job trains and how. Two coordinators with the same job name and
// the same fingerprint run the same job, so one may continue what the other has begun. The length
// of the training, the sections checkpoint, recovery, export and cluster of the job file, and
// fit.closures_in_flight do not count.
uint32_t SettingsOf(const JobSpec& job);

// Returns as JSON the settings from which SettingsOf makes the fingerprint.
std::string SettingsText(const JobSpec& job);

// The SettingsText of a job, and the form in which the job file writes the model.
struct JobSettings {
  std::string text;
  ModelFileForm form = {};
};

// Returns in which settings the job `now` differs from the SettingsText `before`, such as
// "fit.batch_size was 32 and is 64". Names at most eight settings; returns "" if a text is not
// JSON. The settings are named as in the file of the job `now`.
std::string SettingsDifference(const std::string& before, const JobSettings& now);

}  // namespace cohort
