#pragma once

// The section `model` of a job file in the form {"keras": ...}, which contains or names a model
// that Keras wrote. ResolveModel replaces the section by the model's class form, so that all other
// readers find the same form as in a job file with the model itself.

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/network/model_spec.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// The parts of a model in a file of Keras. A text that the file does not have is empty.
struct KerasModelFile {
  std::string config = {};           // JSON, as to_json writes it
  std::string training_config = {};  // JSON of the arguments of compile(), of an .h5 file
  std::string keras_version = {};    // the version, if it stands beside the config
  bool has_weights = false;
};

// Reads the file at `path`. Errors name the path.
using ModelFileReader = std::function<absl::StatusOr<KerasModelFile>(const std::string& path)>;

// Upper bound on the JSON of one model in bytes.
inline constexpr size_t kModelConfigBytesMax = 16 << 20;

struct ResolvedModel {
  // False: what Keras wrote could not be read, and the error is reported.
  bool is_known = true;
  bool is_compile_known = true;
  std::string path = "model";            // place of the class form, for messages
  std::string compile_path = "compile";  // place of the arguments of compile(), for messages
  ModelFileForm form;                    // set, except for what ReadModel sets
};

// Resolves the section `model` of a job. A model in another form stays as it is. If Keras wrote
// arguments of compile() and the job has no section `compile`, they become this section. If
// `files` is empty, a file is an error.
ResolvedModel ResolveModel(const ModelFileReader& files, JsonErrors& errors, nlohmann::json& job);

}  // namespace cohort
