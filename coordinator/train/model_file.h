#pragma once

// What the log and the messages of a training say of the file that `model.keras` names.

#include <string>

#include "coordinator/job/job_spec.h"

namespace cohort {

// Logs as which version of Keras the model was taken, and what of its file does not count. Logs
// nothing of a model that a person wrote into the job file, for which no version matters.
void LogModelFile(const ModelSpec& model);

// Returns the key of the job file that names the weights with which the training begins, for
// messages: "checkpoint.init_from", or "model.keras" if they are those of the model's file.
std::string InitFromKey(const JobSpec& job);

}  // namespace cohort
