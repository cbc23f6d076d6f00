#include "coordinator/train/model_file.h"

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace cohort {

void LogModelFile(const ModelSpec& model) {
  const ModelFileForm& form = model.file_form;
  if (form.version_from.empty() && form.file.empty()) return;
  Log(LogLevel::kInfo, "model_version",
      {{"keras", absl::StrCat(model.keras.major, ".", model.keras.minor)},
       {"said_by", form.version_from.empty() ? "nothing" : form.version_from},
       {"file", form.file}});
  for (const std::string& note : model.notes) Log(LogLevel::kInfo, "model", {{"note", note}});
  if (!form.leaves_compile) return;
  Log(LogLevel::kInfo, "model_compile_not_taken",
      {{"model", form.path},
       {"effect", "the job file's section compile counts, as a whole"},
       {"remedy", "leave the section out to train as the model was compiled in Keras"}});
}

std::string InitFromKey(const JobSpec& job) {
  const bool is_of_model =
      job.model.file_form.has_weights && job.checkpoint.init_from.path == job.model.file_form.file;
  return is_of_model ? "model.keras" : "checkpoint.init_from";
}

}  // namespace cohort
