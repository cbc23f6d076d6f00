#include "coordinator/inspect/model_file.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/keras_file.h"
#include "coordinator/job/keras_model.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/network/read_model.h"
#include "nlohmann/json.hpp"

namespace cohort {

namespace {

using nlohmann::json;

// Returns the job in the file or, for a file of Keras, a job whose model is this file.
absl::StatusOr<json> JobOf(const KerasModelFile& file, const std::string& path) {
  absl::StatusOr<json> parsed = ParseJsonText(file.config);
  if (!parsed.ok()) return Annotate(parsed.status(), path);
  // A model has a class, and a job has a model. JSON in a JSON string is one of Keras's ways.
  const bool is_model = parsed->is_string() || parsed->contains("class_name");
  if (!is_model && parsed->contains("model")) return parsed;
  if (is_model) return json{{"model", {{"keras", path}}}};
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " is neither a job file, which has the key 'model', nor a model of Keras, "
                   "which has 'class_name' and 'config'"));
}

}  // namespace

absl::StatusOr<ModelSpec> ReadModelFile(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const KerasModelFile file, ReadKerasFile(files, path));
  ASSIGN_OR_RETURN(json job, JobOf(file, path));
  JsonErrors errors;
  ModelSpec model;
  const auto read = [&files](const std::string& named) { return ReadKerasFile(files, named); };
  const ResolvedModel resolved = ResolveModel(read, errors, job);
  model.file_form = resolved.form;
  if (resolved.is_known) ReadModel({resolved.path, errors, &job["model"]}, model);
  RETURN_IF_ERROR(errors.ToStatus(path));
  return model;
}

}  // namespace cohort
