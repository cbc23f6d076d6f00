#pragma once

// The code that Keras's JSON names and does not hold: the Python code of Lambda layers, of a user's
// own classes and of other packages' classes. No reader of JSON can compute it.

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace cohort {

// The end of messages about such classes, behind their description.
inline constexpr char kNoCodeInJson[] =
    "whose Python code cannot travel in JSON; write it with Keras's own layers, or bring the model "
    "as an ONNX graph or through the C++ API";

// Returns the description of a class form that stands for Python code, such as "is a Lambda" or
// "is 'Gate' of the module 'my.layers'". Returns "" for every other value.
std::string PythonCodeOf(const nlohmann::json& form);

}  // namespace cohort
