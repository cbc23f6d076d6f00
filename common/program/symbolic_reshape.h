#pragma once

// Inference loses the symbolic batch in Reshape([N,28,28], [-1,784]): the -1 becomes a symbol that
// libonnx makes up ("unk__0"). Where the numbers prove that it equals the single named dimension of
// the input, the name is put back.

#include <map>
#include <string>

#include "onnx/onnx_pb.h"

namespace cohort {

// Types of values, with names put back. Grows round by round.
using NamedShapes = std::map<std::string, onnx::TypeProto>;

// Adds to `named` the Reshape outputs of an inferred graph whose made-up symbol is proven to be a
// name. Returns whether it added any; the caller then infers again with them.
bool NameReshapedDims(const onnx::GraphProto& graph, NamedShapes& named);

// True for a symbol that libonnx made up.
bool IsMadeUpSymbol(const std::string& dim_param);

}  // namespace cohort
