#pragma once

// The model's configuration in a .keras archive. A model that Keras wrote goes back unchanged, for
// the version of Keras that wrote it. A model that a person wrote is written for Keras 3. The
// arguments of compile() are those of the job (keras_compile.h), or are left out.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/formats/weights/keras_writer.h"
#include "coordinator/network/model_spec.h"
#include "proto/program.pb.h"

namespace cohort {

struct ArchivedModel {
  const ModelSpec& model;
  // Tells the shape of the input of a Sequential model that does not declare it.
  const proto::Program& predict;
  std::string compiled;  // compile_config as JSON; empty: the archive has none
  absl::Time saved;
};

// Returns the texts of the archive. Errors: INVALID_ARGUMENT for a layer that Keras does not have,
// naming it.
absl::StatusOr<KerasTexts> KerasTextsOf(const ArchivedModel& archived);

}  // namespace cohort
