#pragma once

// The cells of recurrent layers. A cell computes one step from the step's input and the states
// before it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/program/product_precision.h"
#include "coordinator/layers/layer.h"
#include "coordinator/layers/layer_reader.h"

namespace cohort {

// A cell in the graph of one call.
struct CellSite {
  std::string path;  // path of the cell's variables: "lstm/lstm_cell"
  LayerTarget& target;
  // A factor for the recurrent inputs that is the same at all steps; empty: none.
  std::string recurrent_factor = "";

  std::string Variable(const char* name) const { return path + "/" + name; }
};

// Properties of a cell that do not depend on its inputs.
struct CellForm {
  std::vector<int64_t> state_sizes;
  size_t output = 0;             // number of the state that is the step's output
  double recurrent_dropout = 0;  // the share of the recurrent inputs that training drops

  int64_t output_size() const { return state_sizes[output]; }
};

using CellStates = std::vector<std::string>;

// A cell as one operator computes it over all steps: ONNX's LSTM, GRU and RNN, or cohort.Recurrent
// (common/program/cohort_ops.h). The weights have ONNX's layout and order of gates.
struct WholeCell {
  std::string op = "";  // "LSTM", "GRU" or "RNN"
  std::string x = "";   // [N,steps,inputs], with the cell's dropout
  std::string w = "";   // [1,gates * units,inputs]
  std::string r = "";   // [1,gates * units,units]
  std::string b = "";   // [1,2 * gates * units]; empty: the cell has no bias
  std::vector<onnx::AttributeProto> attributes = {};
  ProductPrecision precision = ProductPrecision::kFloat32;
};

// Implementations are immutable after Read; thread-compatible.
class RecurrentCell {
 public:
  virtual ~RecurrentCell() = default;

  // Reads the keys of the cell's config.
  virtual void Read(LayerReader& reader) = 0;
  virtual CellForm Form() const = 0;
  // Adds the cell's variables for inputs of this size. `path` is that of the cell below the layer.
  virtual absl::Status Plan(const PlannedCall& call, const std::string& path, int64_t inputs,
                            LayerPlan& plan) const = 0;
  // Adds the weights of the cell for one operator that computes all steps of x [N,steps,inputs].
  // Returns nothing, and adds nothing, if no operator computes this cell in this mode.
  virtual std::optional<WholeCell> AddWhole(const std::string& x, const CellSite& site) const = 0;
  // Adds the part of the computation that depends on the inputs alone, for one step [N,inputs] or
  // for all steps [N,steps,inputs] at once.
  virtual std::string AddInputs(const std::string& x, const CellSite& site) const = 0;
  // Adds one step, given the result of AddInputs for the step. Returns the states after the step.
  virtual CellStates AddStep(const std::string& inputs, const CellStates& states,
                             const CellSite& site) const = 0;
};

// Makes the cell of a layer class or cell class: "LSTM" or "LSTMCell". Returns null for others.
std::unique_ptr<RecurrentCell> MakeCell(const std::string& class_name);

// Reads the class form of a cell, or of StackedRNNCells or a list of cells, and its name. Reports
// an error and returns null if it is none.
std::unique_ptr<RecurrentCell> ReadCell(const JsonPlace& place, const LayerContext& context,
                                        std::string* name);

}  // namespace cohort
