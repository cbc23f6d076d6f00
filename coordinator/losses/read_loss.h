#pragma once

// Reads a loss from what Keras writes for it, and writes it: a name ("mse", "MeanSquaredError"),
// the class form of a class with its config, or the class form of a function.

#include "coordinator/json/json_reader.h"
#include "coordinator/losses/loss_table.h"

namespace cohort {

// Reads a loss. `keras` is the version of the file, or 0 if the file does not say it: then a config
// with `fn`, which Keras 2 writes, is Keras 2's, and any other is Keras 3's. Returns whether the
// loss is known; if not, `spec` is unchanged and the error is reported.
bool ReadLoss(const JsonPlace& place, int keras, LossSpec& spec);

}  // namespace cohort
