#pragma once

// The log line and the messages about the file that `model.keras` names.

#include <string>

#include "coordinator/job/job_spec.h"

namespace cohort {

// Logs the version of Keras as which the model was taken, and the parts of its file that do not
// count. Logs nothing if a person wrote the model into the job file and no layer depends on a
// version.
void LogModelFile(const ModelSpec& model);

// Returns the key of the job file that names the weights with which the training begins, for
// messages: "model.keras" if the model's file has the weights, else "checkpoint.init_from".
std::string InitFromKey(const JobSpec& job);

}  // namespace cohort
