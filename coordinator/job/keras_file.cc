#include "coordinator/job/keras_file.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/path_check.h"
#include "common/base/status.h"
#include "common/formats/hdf5/hdf5_file.h"
#include "common/formats/weights/open_weights.h"
#include "common/formats/zip_archive.h"

namespace cohort {

namespace {

constexpr char kRemedy[] = "save it with model.save('m.keras'), or write model.to_json()";

absl::StatusOr<KerasModelFile> ReadSavedModel(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(WeightFile opened, OpenWeights(files, path));
  if (opened.texts.config.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": holds weights, and not the configuration of the model that has them; ", kRemedy,
        ", and name weights alone in checkpoint.init_from"));
  }
  KerasModelFile model;
  model.has_weights =
      std::any_of(opened.entries.begin(), opened.entries.end(),
                  [](const WeightEntry& entry) { return entry.role == WeightRole::kWeight; });
  model.config = std::move(opened.texts.config);
  model.training_config = std::move(opened.texts.training_config);
  model.keras_version = std::move(opened.texts.keras_version);
  return model;
}

absl::StatusOr<KerasModelFile> ReadJson(const ReadableFile& file, const std::string& path) {
  // The size is compared before memory is taken.
  if (file.size() > kModelConfigBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has ", file.size(), " bytes; JSON of a model is read up to ", kModelConfigBytesMax,
        " bytes, and weights from .keras archives and .h5 files"));
  }
  KerasModelFile model;
  model.config.resize(file.size());
  RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(model.config)));
  return model;
}

}  // namespace

absl::StatusOr<KerasModelFile> ReadKerasFile(FileSystem& files, const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("is empty; name the file of a model");
  RETURN_IF_ERROR(CheckLocalPath(path));
  const absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.Open(path);
  if (!file.ok() && files.List(path).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": is a directory; a SavedModel holds the model as TensorFlow's graph, "
                     "and not its configuration: ",
                     kRemedy));
  }
  RETURN_IF_ERROR(file.status());
  if (LooksLikeHdf5(**file) || LooksLikeZip(**file)) return ReadSavedModel(files, path);
  return ReadJson(**file, path);
}

}  // namespace cohort
