#pragma once

// The section `model` of a job file where it is {"keras": ...}: what Keras wrote of a model, either
// inline or in a file. ResolveModel puts the class form that is in there into the place of the
// section, so that every other reader finds the form that a job file may have as well.

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
  std::string keras_version = {};    // as the file says it beside the config
  bool has_weights = false;
};

// Reads the file at a path, which is one that the job file names. Errors name the path.
using ModelFileReader = std::function<absl::StatusOr<KerasModelFile>(const std::string& path)>;

// Upper bound of the JSON of one model in bytes.
inline constexpr size_t kModelConfigBytesMax = 16 << 20;

struct ResolvedModel {
  // False: what Keras wrote could not be read, and the error is reported.
  bool is_known = true;
  bool is_compile_known = true;
  std::string path = "model";            // where messages say that the class form is
  std::string compile_path = "compile";  // where messages say that the arguments of compile() are
  ModelFileForm form;                    // without what ReadModel sets
};

// Resolves the section `model` of a job. A model in another form stays as it is. If Keras wrote
// arguments of compile() and the job has no section `compile`, they become this section. If
// `files` is empty, a file is an error.
ResolvedModel ResolveModel(const ModelFileReader& files, JsonErrors& errors, nlohmann::json& job);

}  // namespace cohort
