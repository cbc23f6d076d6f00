#pragma once

// The configuration of a model for a .keras archive. What Keras wrote goes back as it came, for the
// Keras that wrote it, and a model that a person wrote goes out for Keras 3. The arguments of
// compile() are those of the job (keras_compile.h), or stay out.

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
