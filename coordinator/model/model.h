#pragma once

// A model with its shapes worked out for one type of batch, which adds itself to graphs: the same
// layers with or without what only training does (dropout, statistics of the batch). Values between
// layers are float32 [N, ...]; ids go straight from a column of the batch to the layers that look
// them up.
//
// Columns of the batch become inputs by name, where the data names its columns, else by position:
// the model's inputs in their order, and then the labels. An embedding reads the rows of its table
// that the batch names: the graph's input for the table is those rows, [rows, ...], and its ids are
// positions in them (InputBinding.rows_of). A graph for prediction has the whole table and the ids
// themselves, unless the table is dynamic: that has no whole.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/graph_builder.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/model/layer_nodes.h"
#include "coordinator/model/variable_spec.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace cohort {

// Immutable after construction; thread-compatible.
class Model {
 public:
  // Errors: INVALID_ARGUMENT naming the layer and the shape or type that it cannot take, or the
  // input that the batch does not have.
  static absl::StatusOr<Model> Create(const ModelSpec& spec, uint64_t seed,
                                      const proto::ElementSpec& batch);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  // Returns the shape of one example, without the batch.
  const Shape& output_shape() const { return calls_[output_].shape; }
  // Return the labels' component of the batch, and its name in graphs.
  uint32_t labels() const { return labels_; }
  const std::string& labels_name() const { return labels_name_; }

  // Each declares graph inputs and binds them in the program, in the same order.
  void AddColumns(ModelMode mode, GraphBuilder& graph, proto::Program& program) const;
  // Adds the labels; `labels` is their type in the data sets.
  void AddLabels(const proto::ComponentSpec& labels, GraphBuilder& graph,
                 proto::Program& program) const;
  // Adds the variables under their own names, in creation order.
  void AddVariables(ModelMode mode, GraphBuilder& graph, proto::Program& program) const;

  // Adds the layers and returns the model's output in Keras's order. In training `state` has the
  // new values of variables that layers change.
  ModelOutput AddLayers(ModelMode mode, GraphBuilder& graph, StateValues& state) const;

 private:
  // A table that a column has ids of.
  struct Lookup {
    std::string table;
    bool negative_is_none = false;
  };
  struct Column {
    std::string name;  // name in graphs
    uint32_t component = 0;
    DType dtype = DType::kFloat32;
    Shape shape;            // shape of one example, in the data
    bool is_value = false;  // some layer computes with it
    std::vector<Lookup> lookups;
  };
  struct Call {
    size_t layer = 0;
    std::vector<size_t> inputs;
    bool training = true;  // LayerCall::training
    Shape shape;           // shape of one example of the output
    int column = -1;       // an InputLayer's
  };

  Model() = default;
  void TakeLayers(const ModelSpec& spec);
  absl::Status TakeColumns(const ModelSpec& spec, const proto::ElementSpec& batch);
  absl::StatusOr<uint32_t> FindComponent(const std::string& name, size_t position,
                                         const proto::ElementSpec& batch) const;
  absl::Status TakeInput(const InputLayerSpec& layer, Call& call);
  absl::Status TakeCall(Call& call, uint64_t seed);
  absl::Status TakeLookup(const LayerSpec& layer, const Call& call);
  absl::Status TakeVariables(const Call& call, const Shape& input, uint64_t seed);
  // Returns whether a graph has only the looked-up rows of the variable.
  bool IsByRows(ModelMode mode, const std::string& variable) const;
  ModelOutput AddInput(const Column& column, const Call& call, GraphBuilder& graph) const;
  std::string AddIds(const Column& column, const Call& call, const std::string& table,
                     ModelMode mode, GraphBuilder& graph) const;

  std::vector<LayerSpec> layers_;
  std::vector<Call> calls_;
  std::vector<size_t> inputs_;  // calls
  size_t output_ = 0;
  std::vector<Column> columns_;  // in the order of inputs_
  std::vector<VariableSpec> variables_;
  std::vector<size_t> variable_layers_;
  std::set<std::string> tables_;          // variables that are read by rows
  std::set<std::string> dynamic_tables_;  // the dynamic ones of them
  proto::ElementSpec batch_;
  uint32_t labels_ = 0;
  std::string labels_name_ = "y";
};

}  // namespace cohort
