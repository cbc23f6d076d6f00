#pragma once

// The model's configuration in a .keras archive. A model that Keras wrote goes back unchanged, for
// the version of Keras that wrote it. A model that a person wrote is written for Keras 3. The
// arguments of compile() are left out, because the archive does not have the optimizer's state.

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
