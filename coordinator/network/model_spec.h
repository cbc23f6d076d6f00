#pragma once

// A Keras model as a plain value: its layers and the calls of them, which give the tensors.
//
// A call has inputs, which are outputs of earlier calls, and one output or several. An InputLayer
// has one call, whose output is an input of the model. A Sequential model is a chain of one call
// for each layer; a functional model says what each call is given. A model may be a layer of
// another model (nested_model.h), which may call it several times.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/layers/keras_file.h"
#include "coordinator/layers/layer_class.h"

namespace cohort {

// Output number `tensor` of a call, or input number `tensor` of the model.
struct TensorRef {
  static constexpr size_t kModelInput = SIZE_MAX;

  size_t call =
      0;  // kModelInput: the tensor is an input of the model that no InputLayer stands for
  size_t tensor = 0;

  friend bool operator==(const TensorRef&, const TensorRef&) = default;
};

struct CallInput {
  TensorRef tensor;
  // The argument of the layer's call: "" is the first, "#1" the second one by position, and any
  // other is named. The tensors of a list have the same argument.
  std::string argument = {};

  friend bool operator==(const CallInput&, const CallInput&) = default;
};

// A call of a layer. All calls of a layer share its variables.
struct LayerCall {
  size_t layer = 0;
  std::vector<CallInput> inputs = {};  // outputs of earlier calls
  // The mode in which the call computes in every program: true for training, false for evaluation.
  // Absent: the mode of the program.
  std::optional<bool> training = {};
  std::vector<std::string> flags = {};  // arguments that are true, such as "use_causal_mask"
  // The arguments as JSON, {"args": [...], "kwargs": {...}} with {"tensor": i} for input i; empty
  // if the call has only a first argument.
  std::string arguments = {};

  friend bool operator==(const LayerCall&, const LayerCall&) = default;
};

// The form in which a job file gives a model, for messages that name keys of the file and for the
// log. The form says nothing about the model itself, so any two of these values are equal.
struct ModelFileForm {
  std::string path = "model";  // place of the class form: "model", "model.keras[m.h5]"
  std::string file = "";       // the file that model.keras names; empty: the job file has the model
  bool has_weights = false;    // true: `file` also has weights
  // True: Keras's file has arguments of compile() that are not used, because the job file has its
  // own.
  bool leaves_compile = false;
  std::string version_from = "";  // the key or file that gives the version of Keras; "": none

  // True: the model has no InputLayer in the file, and the first layer gives the shape of the
  // input.
  bool implies_input = false;
  bool config_is_list = false;  // true: `config` is the list of layers, as before Keras 2.2.3
  // The policy of layers that name none. In a file of Keras, which names one for each layer, it is
  // the policy of all layers with "float32".
  std::string dtype_policy = kFloat32Policy;
  int keras = 0;  // the major version of Keras that wrote the model; 0: the file does not say it
  // The text that Keras wrote, as JSON without compile_config; empty if a person wrote the model.
  std::string config = "";

  friend bool operator==(const ModelFileForm&, const ModelFileForm&) { return true; }
};

struct ModelSpec {
  std::string name = "sequential";
  bool sequential = true;
  std::vector<LayerSpec> layers;
  std::vector<LayerCall> calls;  // in an order in which they can be computed
  std::vector<size_t> inputs;    // calls of InputLayers, in the order of the model's inputs
  std::vector<TensorRef> outputs;
  // Names of the inputs and outputs, if the model takes or gives a dict; empty otherwise.
  std::vector<std::string> input_names, output_names;
  bool trainable = true;
  // The version of Keras that wrote the model, and whether a layer depends on the version.
  KerasVersion keras;
  bool depends_on_version = false;
  ModelFileForm file_form;
  std::vector<std::string> notes;  // lines for the log about deviations from what the file says

  size_t num_inputs() const { return inputs.empty() ? 1 : inputs.size(); }
  bool has_inputs() const { return !inputs.empty(); }

  friend bool operator==(const ModelSpec& a, const ModelSpec& b);
};

}  // namespace cohort
