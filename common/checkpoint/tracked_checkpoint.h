#pragma once

// A checkpoint of a model's variables, and of its optimizer's, with TensorFlow's object graph
// (object_graph.h), which Keras 2 and Keras 3 restore by their own calls:
// tf.train.Checkpoint(model=model, optimizer=optimizer), whose restore(prefix).assert_consumed()
// holds, and model.load_weights(prefix) of Keras 2. The root of the graph has the model under the
// name "model", the optimizer under "optimizer", the counter "save_counter", and the model's own
// edges once more, so that the root may be the model as well. TensorFlow finds a variable by the
// names of the edges, and takes the key that the graph gives. So several ways, those of Keras 2 and
// of Keras 3, may lead to one variable.
//
// Each value has two keys in the index, for the same bytes: that of the graph, and the variable's
// plain name, which programs without an object graph ask for (TensorFlow 1, Cohort).

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A variable of a model or of an optimizer.
struct TrackedVariable {
  std::string name;  // "dense/kernel"
  // The ways from the root, by the names of edges: "model/layer_with_weights-0/kernel". The first
  // part is "model" or "optimizer".
  std::vector<std::string> paths;
  std::string full_name = {};  // the variable's name in Keras; empty: `name`
};

// Writes PREFIX.data-00000-of-00001 and PREFIX.index, one value in memory at a time. A checkpoint
// that is there is replaced: its index goes first, so that no index describes the bytes of another
// checkpoint. `read` returns the value of a variable, and is called once for each. Errors:
// INVALID_ARGUMENT for a name or a path that is empty or given twice, and a variable without a
// path; those of `read`; those of the
// file system.
absl::Status WriteTrackedCheckpoint(
    FileSystem& files, const std::string& prefix, absl::Span<const TrackedVariable> variables,
    absl::FunctionRef<absl::StatusOr<Tensor>(const std::string& name)> read);

}  // namespace cohort
