#pragma once

// Detects Python code: Lambda layers, and classes of the user or of other packages. Keras's JSON
// names such code and does not contain it, so no reader of JSON can compute it.

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace cohort {

// The end of messages about such code.
inline constexpr char kNoCodeInJson[] =
    "whose Python code cannot travel in JSON; write it with Keras's own layers, or bring the model "
    "as an ONNX graph or through the C++ API";

// Describes a class form that stands for Python code, such as "is a Lambda" or "is 'Gate' of the
// module 'my.layers'". Returns "" for any other value.
std::string PythonCodeOf(const nlohmann::json& form);

}  // namespace cohort
