#pragma once

// The first pass over a model's calls, which computes the types of the tensors, and collects the
// variables and lookups. For example, a call of `dense` with the input float32 [784] adds the
// variables dense/kernel [784,units] and dense/bias [units].

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"
#include "coordinator/layers/constraint.h"
#include "coordinator/layers/initializer.h"
#include "coordinator/layers/regularizer.h"
#include "coordinator/layers/variable_spec.h"

namespace cohort {

// The type of a tensor between layers.
struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;  // shape of one example, without the batch
  // The number of the model's input, if the tensor is that input unchanged; -1 if it is computed.
  int column = -1;
  std::string layer = {};  // path of the layer that gives the tensor, for errors
};

// The settings of a call: all that a layer needs to know beside its tensors.
struct CallSettings {
  std::string layer = {};  // path of the layer: "dense", or "encoder/dense" in a nested model
  // Place of the layer in its model, from the outermost model on.
  std::vector<size_t> position = {};
  bool trainable = true;                    // false: nothing of the layer is trained
  std::vector<std::string> arguments = {};  // for each input, the argument that takes it
  std::set<std::string> flags = {};         // names of the arguments that are true

  // Returns the numbers of the inputs that are passed as this argument.
  std::vector<size_t> Inputs(const std::string& argument) const;
};

struct PlannedCall {
  const CallSettings& settings;
  absl::Span<const TensorType> inputs;  // at least one

  const Shape& shape() const { return inputs[0].shape; }
};

// Keras's rules for a weight: its initializer, its penalty, and its constraint.
struct WeightRules {
  KerasInitializerSpec initializer;
  RegularizerSpec regularizer = {};
  ConstraintSpec constraint = {};
};

// A trained variable that adds a penalty to the loss.
struct RegularizedVariable {
  std::string variable;
  Shape shape;
  RegularizerSpec regularizer;
};

// A lookup: rows of a table by the ids in a column of the batch.
struct Lookup {
  std::string table;
  bool negative_is_none = false;
  bool dynamic = false;
  bool whole = false;  // true: the graph reads the whole table, and not only the rows of the ids
};

// The types of the outputs of one call, for code that shows a model.
struct PlannedOutputs {
  size_t depth = 0;  // 1 for a layer of the outermost model, 2 for one of a model in it, and so on
  std::vector<TensorType> types;
};

// Upper bound on the calls of all layers of a model.
inline constexpr size_t kPlannedCallsMax = 10000;

// Collects variables and lookups. Thread-compatible.
class LayerPlan {
 public:
  // `seed` is for initializers without a seed.
  explicit LayerPlan(uint64_t seed) : seed_(seed) {}

  // Adds a variable of the layer, such as "kernel", and returns it, so that the caller may change
  // it. A variable that an earlier call has added stays as it is. Errors: INVALID_ARGUMENT if the
  // earlier call needed another shape, and naming a constraint that does not fit the shape.
  absl::StatusOr<VariableSpec*> Add(const PlannedCall& call, const std::string& name,
                                    const Shape& shape, const WeightRules& rules);

  // Counts a call. Errors: INVALID_ARGUMENT above kPlannedCallsMax calls, which nested models could
  // make of a small file.
  absl::Status CountCall();

  // Notes the types of a call's outputs.
  void NoteOutputs(const CallSettings& settings, const std::vector<TensorType>& types) {
    outputs_.push_back({settings.position.size(), types});
  }

  // Notes that the call looks up its first input in a table. Errors: INVALID_ARGUMENT if the input
  // has no ids that a column of the batch holds.
  absl::Status AddLookup(const PlannedCall& call, Lookup lookup);
  // Notes that a layer computes with the values of the column.
  void UseColumn(int column) { used_columns_.insert(column); }

  // Returns the variables in the order of their layers in the model.
  std::vector<VariableSpec> Variables() const;
  // Returns the outputs of each call, in the order in which the calls end: a call of a model ends
  // after the calls in it. Calls of InputLayers are left out.
  const std::vector<PlannedOutputs>& outputs() const { return outputs_; }
  const std::vector<RegularizedVariable>& regularized() const { return regularized_; }
  bool UsesColumn(int column) const { return used_columns_.contains(column); }
  const std::vector<Lookup>& LookupsOf(int column) const;

 private:
  struct Planned {
    std::vector<size_t> position;
    VariableSpec variable;
  };

  const uint64_t seed_;
  std::vector<std::unique_ptr<Planned>> variables_;
  std::map<std::string, Planned*> by_name_;
  std::vector<RegularizedVariable> regularized_;
  std::vector<PlannedOutputs> outputs_;
  std::map<int, std::vector<Lookup>> lookups_;
  std::set<int> used_columns_;
  size_t calls_ = 0;
};

}  // namespace cohort
