#include "coordinator/job/keras_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/dtype_policy.h"
#include "coordinator/network/read_model.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

constexpr char kKeras[] = "keras";
constexpr char kVersion[] = "keras_version";
constexpr char kDTypePolicy[] = "dtype_policy";
constexpr char kCompileConfig[] = "compile_config";

// Parses JSON that Keras wrote. The text may also be a JSON string that contains the JSON:
// json.dump() writes that for the result of to_json().
absl::StatusOr<json> ParseConfig(const std::string& text) {
  if (text.size() > kModelConfigBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the configuration has ", text.size(),
                                                   " bytes; at most ", kModelConfigBytesMax,
                                                   " are read"));
  }
  ASSIGN_OR_RETURN(json parsed, ParseJsonText(text));
  if (!parsed.is_string()) return parsed;
  return ParseJsonText(parsed.get<std::string>());
}

// Removes the prefix that Keras 2.11 to 2.15 write before the names of their own optimizers
// ("Custom>").
void StripRegistry(json& optimizer) {
  if (!optimizer.is_object() || !optimizer.contains("class_name")) return;
  json& name = optimizer["class_name"];
  if (!name.is_string()) return;
  name = std::string(absl::StripPrefix(name.get<std::string>(), "Custom>"));
}

// Returns the arguments of compile() under the keys of the section `compile`. run_eagerly and
// jit_compile are removed, because they change no result.
json CompileOf(json arguments) {
  if (!arguments.is_object()) return arguments;
  if (arguments.contains("optimizer_config")) {
    json optimizer = std::move(arguments["optimizer_config"]);
    arguments.erase("optimizer_config");
    StripRegistry(optimizer);
    arguments["optimizer"] = std::move(optimizer);
  }
  for (const char* const key : {"run_eagerly", "jit_compile"}) arguments.erase(key);
  // A null stands for one weight per example, the only mode that there is here.
  const auto mode = arguments.find("sample_weight_mode");
  if (mode != arguments.end() && mode->is_null()) arguments.erase(mode);
  return arguments;
}

// Resolves the model of one job. Lives for one ResolveModel. Thread-compatible.
class Resolver {
 public:
  Resolver(const ModelFileReader& files, JsonErrors& errors, json& job)
      : files_(files), errors_(errors), job_(job) {}

  ResolvedModel Resolve() {
    const auto model = job_.find("model");
    if (model == job_.end() || !model->is_object()) return std::move(resolved_);
    TakePolicy(*model);
    if (model->contains(kKeras)) {
      json section = std::move(*model);
      json form = ReadSection(section);
      resolved_.is_known = !form.is_null();
      job_["model"] = std::move(form);
    }
    TakeCompile(job_["model"]);
    KeepConfig(job_["model"]);
    return std::move(resolved_);
  }

 private:
  // Takes the policy of the layers out of the section.
  void TakePolicy(json& section) {
    const auto policy = section.find(kDTypePolicy);
    if (policy == section.end()) return;
    const std::string name = policy->is_string() ? policy->get<std::string>() : "";
    if (!IsDTypePolicy(name)) {
      errors_.Add(JoinKeys("model", kDTypePolicy),
                  absl::StrCat("is ", JsonExcerpt(*policy), "; it must be ", kDTypePolicies));
    } else {
      resolved_.form.dtype_policy = name;
    }
    section.erase(policy);
  }

  // Returns the class form that the section {"keras": ..., "keras_version": ...} has or names, or
  // null after an error.
  json ReadSection(const json& section) {
    ObjectReader reader({"model", errors_, &section});
    const json* const keras = reader.Require(kKeras);
    std::string version;
    reader.String(kVersion, &version);
    reader.Finish();
    json form;
    if (keras != nullptr && keras->is_string()) {
      form = ReadFile(keras->get<std::string>());
    } else if (keras != nullptr && keras->is_object()) {
      resolved_.path = JoinKeys("model", kKeras);
      form = *keras;
    } else if (keras != nullptr) {
      reader.AddError(kKeras, absl::StrCat("is ", JsonExcerpt(*keras),
                                           "; it must be the path of a file that Keras wrote, or "
                                           "what model.to_json() returns as an object"));
    }
    if (!version.empty() && !ParseKerasVersion(version)) {
      reader.AddError(kVersion, absl::StrCat("is '", Excerpt(version),
                                             "'; it must be a version from 2.0 on, such as "
                                             "\"2.15.0\""));
    } else if (!version.empty() && form.is_object()) {
      form[kVersion] = version;
      resolved_.form.version_from = JoinKeys("model", kVersion);
    }
    return form;
  }

  // Returns the class form in a file, or null after an error.
  json ReadFile(const std::string& path) {
    const std::string key = JoinKeys("model", kKeras);
    resolved_.path = absl::StrCat(key, "[", Excerpt(path), "]");
    if (!files_) {
      errors_.Add(key, absl::StrCat("names the file '", Excerpt(path),
                                    "', and no files are read here; give the model inline"));
      return nullptr;
    }
    absl::StatusOr<KerasModelFile> file = files_(path);
    if (!file.ok()) {
      errors_.Add(key, std::string(file.status().message()));
      return nullptr;
    }
    absl::StatusOr<json> form = ParseConfig(file->config);
    if (!form.ok() || !form->is_object()) {
      errors_.Add(key, absl::StrCat(Excerpt(path), " holds no model in Keras's JSON: ",
                                    form.ok() ? absl::StrCat("it is ", JsonExcerpt(*form))
                                              : std::string(form.status().message()),
                                    "; name what model.to_json() or model.save() wrote"));
      return nullptr;
    }
    resolved_.form.file = path;
    resolved_.form.has_weights = file->has_weights;
    training_config_ = std::move(file->training_config);
    if (!file->keras_version.empty() && !form->contains(kVersion)) {
      (*form)[kVersion] = file->keras_version;
    }
    return *std::move(form);
  }

  // Makes the section `compile` of the arguments that Keras wrote, unless the job has the section.
  void TakeCompile(json& form) {
    if (!form.is_object()) return;
    json beside;
    if (form.contains(kCompileConfig)) {
      beside = std::move(form[kCompileConfig]);
      form.erase(kCompileConfig);
    }
    const bool is_beside = beside.is_object() && !beside.empty();
    if (!is_beside && training_config_.empty()) return;
    if (job_.contains("compile") && !job_["compile"].is_null()) {
      resolved_.form.leaves_compile = true;
      return;
    }
    resolved_.compile_path =
        JoinKeys(resolved_.path, is_beside ? kCompileConfig : "training_config");
    if (is_beside) {
      job_["compile"] = CompileOf(std::move(beside));
      return;
    }
    absl::StatusOr<json> arguments = ParseConfig(training_config_);
    resolved_.is_compile_known = arguments.ok();
    if (!arguments.ok()) {
      return errors_.Add(resolved_.compile_path, std::string(arguments.status().message()));
    }
    job_["compile"] = CompileOf(*std::move(arguments));
  }

  // Keeps the text that Keras wrote, for an export that returns it unchanged. Nothing is kept of a
  // model that a person wrote, which has neither a module nor a version.
  void KeepConfig(const json& form) {
    if (!form.is_object() || !(form.contains("module") || form.contains(kVersion))) return;
    resolved_.form.config = form.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  const ModelFileReader& files_;
  JsonErrors& errors_;
  json& job_;
  ResolvedModel resolved_;
  std::string training_config_;
};

}  // namespace

ResolvedModel ResolveModel(const ModelFileReader& files, JsonErrors& errors, json& job) {
  return Resolver(files, errors, job).Resolve();
}

}  // namespace cohort
