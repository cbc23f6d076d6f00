#pragma once

// A checkpoint of a model's variables with TensorFlow's object graph (object_graph.h), which Keras
// 2 restores by its own calls: model.load_weights(prefix), and tf.train.Checkpoint(model=model),
// whose restore(prefix).assert_consumed() holds. The root of the graph has the model under the name
// "model", the counter "save_counter", and the model's own edges once more, so that the root may be
// the model as well. TensorFlow finds a variable by the names of the edges, and takes the key that
// the graph gives.

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A variable of a model.
struct TrackedVariable {
  std::string name;  // "dense/kernel"
  std::string path;  // from the model, by the names of edges: "layer_with_weights-0/kernel"
};

// Writes PREFIX.data-00000-of-00001 and PREFIX.index, one value in memory at a time. A checkpoint
// that is there is replaced: its index goes first, so that no index describes the bytes of another
// checkpoint. `read` returns the value of a variable, and is called once for each. Errors:
// INVALID_ARGUMENT for a name or a path that is empty or given twice; those of `read`; those of the
// file system.
absl::Status WriteTrackedCheckpoint(
    FileSystem& files, const std::string& prefix, absl::Span<const TrackedVariable> variables,
    absl::FunctionRef<absl::StatusOr<Tensor>(const std::string& name)> read);

}  // namespace cohort
