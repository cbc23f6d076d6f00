#pragma once

// The configuration of a model for a .keras archive. What Keras wrote goes back as it came, for the
// Keras that wrote it. A model that a person wrote is written for Keras 3. The arguments of
// compile() stay out, since the state of the optimizer is not in the archive.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/formats/weights/keras_writer.h"
#include "coordinator/network/model_spec.h"
#include "proto/program.pb.h"

namespace cohort {

// Returns the texts of the archive. `predict` tells the shape of the input of a Sequential model
// that does not declare it. Errors: INVALID_ARGUMENT for a layer that Keras does not have, naming
// it.
absl::StatusOr<KerasTexts> KerasTextsOf(const ModelSpec& model, const proto::Program& predict,
                                        absl::Time saved);

}  // namespace cohort
