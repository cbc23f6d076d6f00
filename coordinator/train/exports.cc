#include "coordinator/train/exports.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/tracked_checkpoint.h"
#include "common/formats/safetensors.h"
#include "common/formats/weights/keras_writer.h"
#include "coordinator/model/onnx_export.h"
#include "coordinator/model/onnx_file.h"
#include "coordinator/train/keras_compile.h"
#include "coordinator/train/keras_config.h"
#include "coordinator/train/preprocessing_file.h"
#include "coordinator/train/weight_groups.h"

namespace cohort {

namespace {

// Returns the names of the variables in the order of the groups, which is that of Keras.
std::vector<std::string> NamesIn(absl::Span<const WeightGroup> groups) {
  std::vector<std::string> names;
  for (const WeightGroup& group : groups) {
    names.insert(names.end(), group.variables.begin(), group.variables.end());
  }
  return names;
}

// Writes the exported files of one job. Thread-compatible.
class Writer {
 public:
  Writer(FileSystem& files, const JobSpec& job, const ExportedModel& model,
         const ExportSource& source)
      : files_(files), job_(job), model_(model), source_(source) {}

  absl::Status Onnx(const std::string& path) {
    ASSIGN_OR_RETURN(const OnnxExport planned, PlanOnnxExport(model_.predict));
    return WriteOnnx(files_, path, planned, source_.read, kOnnxFileBytesMax);
  }

  absl::Status Keras(const std::string& path) {
    RETURN_IF_ERROR(Plan());
    // Keras makes the optimizer, and then loads its state, if it knows how the model was compiled.
    const std::string compiled = optimizer_.values.empty() ? "" : KerasCompileConfig(job_);
    ASSIGN_OR_RETURN(const KerasTexts texts,
                     KerasTextsOf({job_.model, model_.predict, compiled, source_.now}));
    ASSIGN_OR_RETURN(const std::vector<KerasGroup> groups, ReadGroups());
    return WriteKerasArchive(files_, path, texts, groups);
  }

  absl::Status WeightsH5(const std::string& path) {
    RETURN_IF_ERROR(Plan());
    ASSIGN_OR_RETURN(const std::vector<KerasGroup> groups, ReadGroups());
    return WriteKerasWeights(files_, path, groups);
  }

  absl::Status TfCheckpoint() {
    RETURN_IF_ERROR(Plan());
    std::vector<TrackedVariable> tracked = TrackedWeights();
    std::map<std::string, const KerasOptimizerValue*> values;
    for (const KerasOptimizerValue& value : optimizer_.values) {
      TrackedVariable& one = tracked.emplace_back();
      one.name = value.name;
      for (const std::string& way : value.tracked) {
        one.paths.push_back(absl::StrCat("optimizer/", way));
      }
      one.full_name = value.full_name;
      values[value.name] = &value;
    }
    return WriteTrackedCheckpoint(files_, job_.export_to.tf_checkpoint, tracked,
                                  [&](const std::string& name) -> absl::StatusOr<Tensor> {
                                    const auto found = values.find(name);
                                    if (found == values.end()) return source_.read(name);
                                    return ReadOptimizerValue(job_, source_.state, *found->second);
                                  });
  }

  absl::Status Safetensors(const std::string& path) {
    std::vector<NamedTensor> tensors;
    for (const std::string& variable : model_.variables) {
      ASSIGN_OR_RETURN(Tensor value, source_.read(variable));
      tensors.push_back({variable, std::move(value)});
    }
    return WriteSafetensors(files_, path, tensors, {});
  }

 private:
  // Plans the groups and the optimizer's values, once for all files.
  absl::Status Plan() {
    if (is_planned_) return absl::OkStatus();
    ASSIGN_OR_RETURN(groups_, KerasWeightGroups(job_.model, model_.variables));
    is_planned_ = true;
    if (source_.state.layouts.empty()) return absl::OkStatus();
    const int keras = job_.model.file_form.keras == 2 ? 2 : 3;
    optimizer_ = PlanKerasOptimizer(job_, source_.state, NamesIn(groups_), keras);
    if (optimizer_.why_not.empty()) {
      Log(LogLevel::kInfo, "optimizer_state_exported",
          {{"optimizer", job_.compile.optimizer.class_name},
           {"steps", source_.state.steps},
           {"values", optimizer_.values.size()},
           {"keras", keras}});
    } else {
      Log(LogLevel::kWarning, "optimizer_state_not_exported",
          {{"optimizer", job_.compile.optimizer.class_name},
           {"cause", optimizer_.why_not},
           {"effect", "the files for Keras have the weights alone"},
           {"remedy", "a checkpoint of checkpoint.directory has every slot"}});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<KerasGroup>> ReadGroups() {
    std::vector<KerasGroup> groups;
    for (const WeightGroup& group : groups_) {
      KerasGroup& made = groups.emplace_back(KerasGroup{group.path, group.name, {}});
      for (const std::string& variable : group.variables) {
        ASSIGN_OR_RETURN(Tensor value, source_.read(variable));
        made.values.push_back(std::move(value));
      }
    }
    if (optimizer_.values.empty()) return groups;
    KerasGroup& made = groups.emplace_back(KerasGroup{.path = "optimizer"});
    for (const KerasOptimizerValue& value : optimizer_.values) {
      if (!value.is_numbered) continue;
      ASSIGN_OR_RETURN(Tensor content, ReadOptimizerValue(job_, source_.state, value));
      made.values.push_back(std::move(content));
    }
    return groups;
  }

  // Returns the model's variables with their ways in the object graphs of Keras 2 and 3.
  std::vector<TrackedVariable> TrackedWeights() const {
    const std::string why = WhyNoKeras3Ways(job_.model);
    if (!why.empty()) {
      Log(LogLevel::kWarning, "checkpoint_without_ways_of_keras3",
          {{"cause", why},
           {"effect",
            "tf.train.Checkpoint of Keras 3 finds the trained variables by the optimizer alone, "
            "and no others"},
           {"remedy", "export.keras or export.weights_h5"}});
    }
    std::map<std::string, size_t> trained;  // the variables with a slot, by their numbers
    if (!optimizer_.values.empty()) {
      for (const std::string& name : optimizer_.trained) trained.emplace(name, trained.size());
    }
    std::vector<TrackedVariable> tracked;
    for (const WeightGroup& group : groups_) {
      for (size_t i = 0; i < group.variables.size(); ++i) {
        const std::string& name = group.variables[i];
        TrackedVariable& one = tracked.emplace_back();
        one.name = name;
        std::set<std::string> paths = {
            absl::StrCat("model/", group.tracked, "/", group.attributes2[i])};
        if (why.empty()) {
          paths.insert(absl::StrCat("model/", group.tracked3, "/", group.attributes3[i]));
        }
        if (const auto number = trained.find(name); number != trained.end()) {
          paths.insert(absl::StrCat("optimizer/_trainable_variables/", number->second));
        }
        one.paths.assign(paths.begin(), paths.end());
      }
    }
    return tracked;
  }

  FileSystem& files_;
  const JobSpec& job_;
  const ExportedModel& model_;
  const ExportSource& source_;
  bool is_planned_ = false;
  std::vector<WeightGroup> groups_;
  KerasOptimizer optimizer_;
};

absl::Status CheckOne(const std::string& key, const JobSpec& job, const ExportedModel& model) {
  if (key == "export.onnx") return PlanOnnxExport(model.predict).status();
  if (key == "export.safetensors") return absl::OkStatus();
  RETURN_IF_ERROR(KerasWeightGroups(job.model, model.variables).status());
  if (key != "export.keras") return absl::OkStatus();
  return KerasTextsOf({job.model, model.predict, "", absl::UnixEpoch()}).status();
}

}  // namespace

absl::Status CheckExports(const JobSpec& job, const ExportedModel& model) {
  for (const auto& [key, path] : job.export_to.Files()) {
    RETURN_IF_ERROR(Annotate(CheckOne(key, job, model), key));
  }
  return absl::OkStatus();
}

absl::Status WriteExports(FileSystem& files, const JobSpec& job, const ExportedModel& model,
                          const ExportSource& source) {
  Writer writer(files, job, model, source);
  const ExportSpec& to = job.export_to;
  const auto run = [&](const char* key, const std::string& path, auto write) {
    if (path.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(Annotate(files.MakeDirectories(DirectoryOf(path)), key));
    // The files that an earlier process was writing when it was killed are removed.
    RemoveTemporaries(files, path);
    RETURN_IF_ERROR(Annotate(write(), key));
    if (HasMaps(job.data)) {
      RETURN_IF_ERROR(Annotate(WritePreprocessing(files, path, job), key));
    }
    Log(LogLevel::kInfo, "model_exported", {{"key", key}, {"file", path}});
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(run("export.onnx", to.onnx, [&] { return writer.Onnx(to.onnx); }));
  RETURN_IF_ERROR(run("export.keras", to.keras, [&] { return writer.Keras(to.keras); }));
  RETURN_IF_ERROR(
      run("export.weights_h5", to.weights_h5, [&] { return writer.WeightsH5(to.weights_h5); }));
  RETURN_IF_ERROR(run("export.safetensors", to.safetensors,
                      [&] { return writer.Safetensors(to.safetensors); }));
  return run("export.tf_checkpoint", to.tf_checkpoint, [&] { return writer.TfCheckpoint(); });
}

}  // namespace cohort
