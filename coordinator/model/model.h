#pragma once

// A model with its shapes computed for one type of batch. It adds itself to graphs: always the same
// layers, with or without the training-only parts (dropout, batch statistics).
// Values between layers are float32 [N, ...]; ids go directly from a column of the batch to the
// layers that look them up.
//
// Columns of the batch become inputs of the model by name, if the data has named columns, else by
// position: first the model's inputs in their order, then the labels (scored_outputs.h). An
// embedding reads the rows of its table that the batch names: the graph's input for the table is
// those rows, [rows, ...], and the ids are positions in them (InputBinding.rows_of). A graph for
// prediction has the whole table and the ids themselves, unless the table is dynamic, because a
// dynamic table has no fixed rows.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/graph_builder.h"
#include "coordinator/layers/layer_target.h"
#include "coordinator/layers/variable_spec.h"
#include "coordinator/losses/loss_table.h"
#include "coordinator/network/model_spec.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

// Immutable after construction; thread-compatible.
class Model {
 public:
  // Makes a model. Errors: INVALID_ARGUMENT naming the layer and the shape or type that the layer
  // cannot take, or the input of the model that the batch does not contain.
  static absl::StatusOr<Model> Create(const ModelSpec& spec, uint64_t seed,
                                      const proto::ElementSpec& batch);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  // Returns the types of the outputs.
  const std::vector<TensorType>& outputs() const { return outputs_; }
  // Returns the numbers of the components of the batch that are inputs of the model.
  std::vector<uint32_t> components() const;
  // Returns the component that has labels: the column of this name, or, of data without named
  // columns, component number `position` behind those of the inputs. Errors: INVALID_ARGUMENT if
  // the batch has no such component.
  absl::StatusOr<uint32_t> FindLabels(const std::string& column, size_t position) const;
  // Returns the name in graphs of an output's labels; the name of a model's only output is empty.
  std::string LabelsName(const std::string& output) const;

  // Declares the columns of the batch as graph inputs, and binds them in the program in the same
  // order.
  void AddColumns(ModelMode mode, GraphBuilder& graph, proto::Program& program) const;
  // Adds labels, which are component `component` of a batch, as a graph input and binds it;
  // `labels` is their type in the data sets.
  NodeValue AddLabels(const std::string& output, const proto::ComponentSpec& labels,
                      uint32_t component, GraphBuilder& graph, proto::Program& program) const;
  // Adds weights of the examples, which are component `component` of a batch, as a graph input and
  // binds it. Programs with several components of weights give each a `suffix` of its name.
  NodeValue AddSampleWeight(const std::string& suffix, uint32_t component, GraphBuilder& graph,
                            proto::Program& program) const;
  // Adds the variables as graph inputs under their own names, in creation order, and binds them.
  void AddVariables(ModelMode mode, GraphBuilder& graph, proto::Program& program) const;

  // Adds the layers and returns the model's outputs in Keras's order. In training, `state` then has
  // the new values of the variables that layers change without training them.
  // `penalties` then has the scalars that layers and variables add to the mean loss, except in
  // prediction.
  std::vector<LayerValue> AddLayers(ModelMode mode, GraphBuilder& graph, StateValues& state,
                                    std::vector<std::string>& penalties) const;

 private:
  struct Column {
    std::string name;  // name of the column in graphs
    uint32_t component = 0;
    DType dtype = DType::kFloat32;
    Shape shape;            // shape of one example of the column
    bool is_value = false;  // true if a layer computes with the values
    std::vector<Lookup> lookups;
  };
  Model() = default;
  absl::Status TakeColumns(const proto::ElementSpec& batch);
  absl::StatusOr<uint32_t> FindComponent(const std::string& name, size_t position,
                                         const proto::ElementSpec& batch) const;
  absl::Status Plan(uint64_t seed);
  // Returns the type of an input of the model, which has the declared shape.
  absl::StatusOr<TensorType> TakeInput(size_t number) const;
  // Returns the InputLayer of an input, or null.
  const LayerSpec* InputLayerOf(size_t number) const;
  // Returns whether the graph contains only the looked-up rows of the variable.
  bool IsByRows(ModelMode mode, const std::string& variable) const;
  LayerValue AddInput(size_t number, GraphBuilder& graph) const;

  ModelSpec spec_;
  std::vector<Column> columns_;     // columns of the model's inputs, in their order
  std::vector<TensorType> inputs_;  // types of the model's inputs
  std::vector<TensorType> outputs_;
  std::vector<VariableSpec> variables_;
  std::vector<RegularizedVariable> regularized_;
  std::set<std::string> tables_;          // names of variables that are read by rows
  std::set<std::string> dynamic_tables_;  // names of the dynamic ones among tables_
  proto::ElementSpec batch_;
  std::string labels_name_ = "y";
};

}  // namespace cohort
