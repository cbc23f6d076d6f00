#pragma once

// The Keras file that has a layer: the version of Keras that wrote it, and what its layers have
// reported so far. Versions differ in what a config means, so each layer is read by the rules of
// the version. A model without a version, such as one written by hand, counts as written by the
// newest version that Cohort knows.

#include <compare>
#include <string>
#include <vector>

#include "coordinator/layers/dtype_policy.h"

namespace cohort {

struct LayerClass;

struct KerasVersion {
  int major = 3;
  int minor = 15;

  bool IsKeras2() const { return major < 3; }

  friend auto operator<=>(const KerasVersion&, const KerasVersion&) = default;
};

// Notes that the readers of layers leave for the code that uses the model.
struct FileNotes {
  std::vector<std::string> lines;   // lines about deviations from what the file says
  bool depends_on_version = false;  // true: a layer asked which version wrote the file
};

// Facts about the file that the reader of a layer needs.
struct LayerContext {
  KerasVersion keras = {};
  bool version_is_known = false;  // the file says its version
  bool names_modules = false;     // the file names the model's module, as Keras does from 2.13 on
  const std::vector<LayerClass>* classes = nullptr;  // the table; never null
  std::string dtype_policy = kFloat32Policy;         // ModelFileForm::dtype_policy
  int depth = 0;                                     // number of layers around this layer
  std::string call = {};       // LayerCall::arguments of the layer's first call, or ""
  FileNotes* notes = nullptr;  // never null
};

}  // namespace cohort
