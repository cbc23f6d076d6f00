#pragma once

// The files of the trained model that the job's section `export` asks for. Whether a model can be
// exported follows from its structure, so it is known before the training. The files for Keras have
// the state of the optimizer too, if Keras has an optimizer that goes on with it
// (optimizer_export.h).

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/train/optimizer_export.h"
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

// The values that an export reads, and the time that an archive names.
struct ExportSource {
  ReadWhole read;
  TrainedState state;  // without layouts: of the optimizer, nothing is written
  absl::Time now;
};

// Writes the files and their directories. Logs each file, and whether the files for Keras have the
// state of the optimizer. All values of a Keras or safetensors file are in memory at once. Errors:
// those of CheckExports, of the source's reads and of the file system, with the key.
absl::Status WriteExports(FileSystem& files, const JobSpec& job, const ExportedModel& model,
                          const ExportSource& source);

}  // namespace cohort
