#include "coordinator/inspect/model_summary.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/inspect/text.h"

namespace cohort {

namespace {

constexpr char kUnknown[] = "?";
// The most lines of one cell. A layer may be given thousands of tensors, or be called as often.
constexpr size_t kLinesMax = 100;

// Numbers and bytes of variables.
struct Count {
  int64_t numbers = 0;
  uint64_t bytes = 0;

  void Add(const VariableSpec& variable) {
    numbers += variable.shape.num_elements();
    bytes += static_cast<uint64_t>(variable.shape.num_elements()) * ElementSize(variable.dtype);
  }
};

// The variables of one layer, or of a model. A dynamic table has as many rows as keys were seen, so
// its parameters are not counted.
struct Parameters {
  Count trainable;
  Count other;
  bool has_dynamic_table = false;

  void Add(const VariableSpec& variable) {
    if (variable.dynamic.has_value()) {
      has_dynamic_table = true;
    } else {
      (variable.trainable ? trainable : other).Add(variable);
    }
  }
  int64_t numbers() const { return trainable.numbers + other.numbers; }
  uint64_t bytes() const { return trainable.bytes + other.bytes; }
};

// Returns the parameters by the names of the model's own layers. Names of layers have no slash, so
// the first part of a variable's name is that of the layer.
std::map<std::string, Parameters> ByLayer(const ModelShapes& shapes) {
  std::map<std::string, Parameters> by_layer;
  for (const VariableSpec& variable : shapes.variables) {
    by_layer[variable.name.substr(0, variable.name.find('/'))].Add(variable);
  }
  return by_layer;
}

// Adds a line unless the cell has it already; behind kLinesMax lines, "..." stands for the others.
void AddLine(std::string line, TextTable::Cell& cell) {
  if (cell.size() > kLinesMax || std::find(cell.begin(), cell.end(), line) != cell.end()) return;
  cell.push_back(cell.size() == kLinesMax ? "..." : std::move(line));
}

std::string ParameterText(const Parameters& parameters) {
  const std::string numbers = WithCommas(parameters.numbers());
  return parameters.has_dynamic_table ? absl::StrCat("dynamic + ", numbers) : numbers;
}

// Returns "-" for a layer that has nothing to train.
std::string TrainableText(const ModelSpec& model, const LayerSpec& layer,
                          const Parameters& parameters) {
  if (parameters.numbers() == 0 && !parameters.has_dynamic_table) return "-";
  return model.trainable && layer.trainable ? "Y" : "N";
}

std::string Totals(const ModelShapes& shapes) {
  Parameters all;
  for (const VariableSpec& variable : shapes.variables) all.Add(variable);
  const auto line = [](const char* what, int64_t numbers, uint64_t bytes) {
    return absl::StrCat(what, ": ", WithCommas(numbers), " (", SizeText(bytes), ")\n");
  };
  std::string text =
      absl::StrCat(line("Total params", all.numbers(), all.bytes()),
                   line("Trainable params", all.trainable.numbers, all.trainable.bytes),
                   line("Non-trainable params", all.other.numbers, all.other.bytes));
  if (all.has_dynamic_table) {
    absl::StrAppend(&text, "Rows of dynamic tables are not counted: they follow from the keys.\n");
  }
  return text;
}

}  // namespace

std::string TensorText(const ModelSpec& model, const TensorRef& tensor) {
  if (tensor.call == TensorRef::kModelInput) return "(input)";
  const size_t layer = model.calls[tensor.call].layer;
  const auto end = model.calls.begin() + static_cast<std::ptrdiff_t>(tensor.call);
  const auto number = std::count_if(model.calls.begin(), end,
                                    [&](const LayerCall& call) { return call.layer == layer; });
  return absl::StrCat(Printable(model.layers[layer].name, kShownNameMax), "[", number, "][",
                      tensor.tensor, "]");
}

std::string OutputText(const ModelShapes& shapes, size_t call) {
  if (!shapes.known) return kUnknown;
  std::vector<std::string> texts;
  for (const OpenShape& shape : shapes.outputs[call]) texts.push_back(ShapeText(shape));
  if (texts.size() == 1) return texts[0];
  return Printable(absl::StrCat("[", absl::StrJoin(texts, ", "), "]"), kShownNameMax);
}

std::string ModelSummary(const ModelSpec& model, const ModelShapes& shapes) {
  std::vector<TextTable::Cell> outputs(model.layers.size()), inputs(model.layers.size());
  for (size_t i = 0; i < model.calls.size(); ++i) {
    const LayerCall& call = model.calls[i];
    AddLine(OutputText(shapes, i), outputs[call.layer]);
    for (const CallInput& input : call.inputs) {
      if (inputs[call.layer].size() > kLinesMax) break;
      AddLine(TensorText(model, input.tensor), inputs[call.layer]);
    }
  }
  std::map<std::string, Parameters> by_layer = ByLayer(shapes);
  TextTable table({"Layer (type)", "Output Shape", "Param #", "Connected to", "Trainable"});
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    const Parameters& parameters = by_layer[layer.name];
    table.Add({{absl::StrCat(Printable(layer.name, kShownNameMax), " (", layer.type->name, ")")},
               outputs[i],
               {shapes.known ? ParameterText(parameters) : kUnknown},
               inputs[i],
               {shapes.known ? TrainableText(model, layer, parameters) : kUnknown}});
  }
  std::string text =
      absl::StrCat("Model: \"", Printable(model.name, kShownNameMax), "\"\n", table.ToText(), "\n");
  for (const std::string& note : model.notes) {
    absl::StrAppend(&text, "Note: ", PrintableLines(note), "\n");
  }
  if (shapes.known) return absl::StrCat(text, Totals(shapes));
  return absl::StrCat(text,
                      "The shapes and parameters follow from the data: the model does not say what "
                      "an example is. Give its first layer an input_shape to see them.\n");
}

}  // namespace cohort
