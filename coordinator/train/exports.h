#pragma once

// The files of the trained model that the job's section `export` asks for. Whether a model can be
// exported follows from its structure, so it is known before the training.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"
#include "coordinator/job/job_spec.h"
#include "proto/program.pb.h"

namespace cohort {

// The content of the exported files.
struct ExportedModel {
  const proto::Program& predict;
  // Names of the variables; those of one layer are in its order.
  std::vector<std::string> variables;
};

// Checks that the model can be exported. Errors: those of PlanOnnxExport, KerasWeightGroups and
// KerasTextsOf, with the key that asks for the file.
absl::Status CheckExports(const JobSpec& job, const ExportedModel& model);

// Returns the whole value of a variable.
using ReadWhole = absl::FunctionRef<absl::StatusOr<Tensor>(const std::string& variable)>;

// Writes the files and makes their directories. `now` is the date in a .keras archive. The whole
// content of a Keras or safetensors file is in memory at once. Errors: those of CheckExports, of
// `read` and of the file system, naming the key of the job file.
absl::Status WriteExports(FileSystem& files, const JobSpec& job, const ExportedModel& model,
                          ReadWhole read, absl::Time now);

}  // namespace cohort
