#include "coordinator/inspect/model_file.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "common/formats/hdf5/hdf5_file.h"
#include "common/formats/weights/open_weights.h"
#include "common/formats/zip_archive.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/network/read_model.h"
#include "nlohmann/json.hpp"

namespace cohort {

namespace {

using nlohmann::json;

absl::StatusOr<json> ParseText(const std::string& text, const std::string& path) {
  absl::StatusOr<json> parsed = ParseJsonText(text);
  if (!parsed.ok()) return Annotate(parsed.status(), path);
  return parsed;
}

// Returns the JSON of the model beside the weights of a .keras or .h5 file. The version of Keras
// stands elsewhere in such a file, and is put where to_json writes it.
absl::StatusOr<json> ModelBesideWeights(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const WeightFile weights, OpenWeights(files, path));
  if (weights.texts.config.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds weights (", WeightFileKindName(weights.kind),
                     ") and no model; name the file of the whole model, or its JSON"));
  }
  ASSIGN_OR_RETURN(json model, ParseText(weights.texts.config, path));
  if (model.is_object() && !model.contains("keras_version") &&
      !weights.texts.keras_version.empty()) {
    model["keras_version"] = weights.texts.keras_version;
  }
  return model;
}

absl::StatusOr<json> ReadJsonFile(FileSystem& files, const ReadableFile& file,
                                  const std::string& path) {
  if (file.size() > kModelFileBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat(path, " has ", file.size(), " bytes; at most ",
                                                     kModelFileBytesMax,
                                                     " are read of a file with JSON"));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(files, path));
  return ParseText(text, path);
}

}  // namespace

absl::StatusOr<ModelSpec> ReadModelFile(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  const bool has_weights = LooksLikeHdf5(*file) || LooksLikeZip(*file);
  ASSIGN_OR_RETURN(const json whole, has_weights ? ModelBesideWeights(files, path)
                                                 : ReadJsonFile(files, *file, path));
  // A model has a class, and a job has a model.
  const bool is_job = whole.is_object() && !whole.contains("class_name");
  if (!whole.is_object() || (is_job && !whole.contains("model"))) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is neither a job file, which has the key 'model', nor a model of Keras, "
                     "which has 'class_name' and 'config'"));
  }
  JsonErrors errors;
  ModelSpec model;
  const json& value = is_job ? whole["model"] : whole;
  ReadModel({is_job ? "model" : "", errors, &value}, model);
  RETURN_IF_ERROR(errors.ToStatus(path));
  return model;
}

}  // namespace cohort
