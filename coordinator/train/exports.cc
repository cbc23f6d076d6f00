#include "coordinator/train/exports.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/tracked_checkpoint.h"
#include "common/formats/safetensors.h"
#include "common/formats/weights/keras_writer.h"
#include "coordinator/model/onnx_export.h"
#include "coordinator/model/onnx_file.h"
#include "coordinator/train/keras_config.h"
#include "coordinator/train/weight_groups.h"

namespace cohort {

namespace {

// Writes the exported files of one job. Thread-compatible.
class Writer {
 public:
  Writer(FileSystem& files, const JobSpec& job, const ExportedModel& model, ReadWhole read)
      : files_(files), job_(job), model_(model), read_(read) {}

  absl::Status Onnx(const std::string& path) {
    ASSIGN_OR_RETURN(const OnnxExport planned, PlanOnnxExport(model_.predict));
    return WriteOnnx(files_, path, planned, read_, kOnnxFileBytesMax);
  }

  absl::Status Keras(const std::string& path, absl::Time now) {
    ASSIGN_OR_RETURN(const KerasTexts texts, KerasTextsOf(job_.model, model_.predict, now));
    ASSIGN_OR_RETURN(const std::vector<KerasGroup> groups, ReadGroups());
    return WriteKerasArchive(files_, path, texts, groups);
  }

  absl::Status WeightsH5(const std::string& path) {
    ASSIGN_OR_RETURN(const std::vector<KerasGroup> groups, ReadGroups());
    return WriteKerasWeights(files_, path, groups);
  }

  absl::Status TfCheckpoint() {
    ASSIGN_OR_RETURN(const std::vector<WeightGroup> groups,
                     KerasWeightGroups(job_.model, model_.variables));
    std::vector<TrackedVariable> tracked;
    for (const WeightGroup& group : groups) {
      for (const std::string& variable : group.variables) {
        const std::string attribute = variable.substr(variable.rfind('/') + 1);
        tracked.push_back({variable, absl::StrCat(group.tracked, "/", attribute)});
      }
    }
    return WriteTrackedCheckpoint(files_, job_.export_to.tf_checkpoint, tracked, read_);
  }

  absl::Status Safetensors(const std::string& path) {
    std::vector<NamedTensor> tensors;
    for (const std::string& variable : model_.variables) {
      ASSIGN_OR_RETURN(Tensor value, read_(variable));
      tensors.push_back({variable, std::move(value)});
    }
    return WriteSafetensors(files_, path, tensors, {});
  }

 private:
  absl::StatusOr<std::vector<KerasGroup>> ReadGroups() {
    ASSIGN_OR_RETURN(const std::vector<WeightGroup> planned,
                     KerasWeightGroups(job_.model, model_.variables));
    std::vector<KerasGroup> groups;
    for (const WeightGroup& group : planned) {
      KerasGroup& made = groups.emplace_back(KerasGroup{group.path, group.name, {}});
      for (const std::string& variable : group.variables) {
        ASSIGN_OR_RETURN(Tensor value, read_(variable));
        made.values.push_back(std::move(value));
      }
    }
    return groups;
  }

  FileSystem& files_;
  const JobSpec& job_;
  const ExportedModel& model_;
  const ReadWhole read_;
};

absl::Status CheckOne(const std::string& key, const JobSpec& job, const ExportedModel& model) {
  if (key == "export.onnx") return PlanOnnxExport(model.predict).status();
  if (key == "export.safetensors") return absl::OkStatus();
  RETURN_IF_ERROR(KerasWeightGroups(job.model, model.variables).status());
  if (key != "export.keras") return absl::OkStatus();
  return KerasTextsOf(job.model, model.predict, absl::UnixEpoch()).status();
}

}  // namespace

absl::Status CheckExports(const JobSpec& job, const ExportedModel& model) {
  for (const auto& [key, path] : job.export_to.Files()) {
    RETURN_IF_ERROR(Annotate(CheckOne(key, job, model), key));
  }
  return absl::OkStatus();
}

absl::Status WriteExports(FileSystem& files, const JobSpec& job, const ExportedModel& model,
                          ReadWhole read, absl::Time now) {
  Writer writer(files, job, model, read);
  const ExportSpec& to = job.export_to;
  const auto run = [&](const char* key, const std::string& path, auto write) {
    if (path.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(Annotate(files.MakeDirectories(DirectoryOf(path)), key));
    // The files that an earlier process was writing when it was killed are removed.
    RemoveTemporaries(files, path);
    return Annotate(write(), key);
  };
  RETURN_IF_ERROR(run("export.onnx", to.onnx, [&] { return writer.Onnx(to.onnx); }));
  RETURN_IF_ERROR(run("export.keras", to.keras, [&] { return writer.Keras(to.keras, now); }));
  RETURN_IF_ERROR(
      run("export.weights_h5", to.weights_h5, [&] { return writer.WeightsH5(to.weights_h5); }));
  RETURN_IF_ERROR(run("export.safetensors", to.safetensors,
                      [&] { return writer.Safetensors(to.safetensors); }));
  return run("export.tf_checkpoint", to.tf_checkpoint, [&] { return writer.TfCheckpoint(); });
}

}  // namespace cohort
